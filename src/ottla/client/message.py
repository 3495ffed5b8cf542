"""A record as a consumer sees it: an object with attributes that is also a mapping.

`message.offset` and `message["offset"]` are the same, `dict(message)` is a plain dictionary, and a Message can be made
by hand for a test of the code that handles it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ottla.client.errors import DeserializationError
from ottla.types import TopicPartition

FIELDS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")


class Message(Mapping[str, Any]):
    """Not a frozen dataclass, as those take three times as long to make, and there is one for every record."""

    __slots__ = ("error", "headers", "key", "offset", "partition", "timestamp", "topic", "value")

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        timestamp: int = -1,
        key: Any = None,
        value: Any = None,
        headers: Sequence[tuple[str, bytes | None]] | None = None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.timestamp = timestamp
        """Milliseconds since 1970; -1 if the record has none."""
        self.key = key
        self.value = value
        self.headers: Sequence[tuple[str, bytes | None]] = headers or ()
        """Pairs in the order they were sent; a name may come more than once."""
        self.error: DeserializationError | None = None
        """With OnBadRecord.KEEP: why key and value are the bytes as they came."""

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def header(self, name: str) -> bytes | None:
        """The last value of a header, or None."""
        return next((value for key, value in reversed(self.headers) if key == name), None)

    def __getitem__(self, field: str) -> Any:
        if field in FIELDS:
            return getattr(self, field)
        raise KeyError(field)

    def __iter__(self) -> Iterator[str]:
        return iter(FIELDS)

    def __len__(self) -> int:
        return len(FIELDS)

    def __repr__(self) -> str:
        return f"Message({', '.join(f'{field}={getattr(self, field)!r:.60}' for field in FIELDS)})"
