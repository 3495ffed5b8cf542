"""What the controller looks at when it decides, and how it collects what shall be written."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from ottla.config import BrokerConfig
from ottla.errors import BrokerError, ErrorCode
from ottla.metadata.holdings import Holdings
from ottla.metadata.image import MetadataImage
from ottla.metadata.records import MetadataRecord
from ottla.ports import Random
from ottla.values import value

Named = TypeVar("Named")

RECORDS_MAX = 20_000
"""What one request may write: it is one batch in the log and one pause of the controller."""


@value
class Deciding:
    config: BrokerConfig
    image: MetadataImage
    random: Random
    holdings: Holdings
    """What each broker holds."""
    colliding_names: Mapping[str, str]
    """Existing topics by what their names look like in metrics (`topic_names.collision_key`)."""


class NewRecords:
    """The records of one request, bounded."""

    __slots__ = ("records",)

    def __init__(self) -> None:
        self.records: list[MetadataRecord] = []

    def require_room(self, count: int) -> None:
        """Asked before anything is allocated: a client may want two billion partitions."""
        if len(self.records) + count > RECORDS_MAX:
            raise BrokerError(
                ErrorCode.POLICY_VIOLATION, f"One request may write at most {RECORDS_MAX} records of metadata."
            )

    def add(self, records: Iterable[MetadataRecord]) -> None:
        self.records.extend(records)

    def unless(self, validate_only: bool) -> Sequence[MetadataRecord]:
        """What to write: nothing if the client only wanted to know whether it could be done."""
        return () if validate_only else self.records


def given_twice(things: Iterable[Named]) -> set[Named]:
    return {thing for thing, count in Counter(things).items() if count > 1}
