"""What clients did and saw, in virtual time: all that a checker may look at.

An operation begins with its outcome UNKNOWN and stays so if its client never learns what became of it: then it may have
happened, or may still happen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from ottla.types import TopicPartition

NEVER = math.inf
NO_OFFSET = -1
NO_EPOCH = -1
NOBODY = -1


class Outcome(StrEnum):
    OK = "ok"
    FAILED = "failed"
    """It has certainly had no effect."""
    UNKNOWN = "unknown"


@dataclass(slots=True, kw_only=True)
class Operation:
    client: str
    began: float
    ended: float = NEVER
    outcome: Outcome = Outcome.UNKNOWN

    def end(self, outcome: Outcome, at: float) -> None:
        self.outcome = outcome
        self.ended = at


@dataclass(slots=True, kw_only=True)
class Send(Operation):
    """A batch of an idempotent producer; no two records in a history have the same value."""

    partition: TopicPartition
    values: tuple[bytes, ...]
    base_offset: int = NO_OFFSET
    """Where it was acknowledged; NO_OFFSET if the broker only said that it has it."""


@dataclass(slots=True, kw_only=True)
class Poll(Operation):
    """What one fetch brought of one partition. A reader that goes back to an earlier place is another `client`."""

    partition: TopicPartition
    records: tuple[tuple[int, bytes], ...]
    high_watermark: int
    leader: int = NOBODY
    """Who answered."""
    epoch: int = NO_EPOCH
    """The leader epoch in which it did."""


@dataclass(slots=True, kw_only=True)
class LatestOffset(Operation):
    """A leader was asked where the log ends for readers."""

    partition: TopicPartition
    offset: int
    leader: int = NOBODY
    epoch: int = NO_EPOCH


@dataclass(slots=True, kw_only=True)
class LeaderSeen(Operation):
    """What a broker said about who leads a partition."""

    broker: str
    partition: TopicPartition
    leader: int
    epoch: int


@dataclass(slots=True, kw_only=True)
class Commit(Operation):
    group: str
    partition: TopicPartition
    offset: int
    coordinator: str = ""


@dataclass(slots=True, kw_only=True)
class CommittedRead(Operation):
    group: str
    partition: TopicPartition
    offset: int = NO_OFFSET
    """NO_OFFSET if nothing is committed."""
    coordinator: str = ""
    is_final: bool = False
    """Whether all is quiet, so that no former coordinator can be the one that answers."""


@dataclass(slots=True, kw_only=True)
class Ownership(Operation):
    """A member was told that these partitions are its own in a generation."""

    group: str
    member: str
    generation: int
    partitions: tuple[TopicPartition, ...]


@dataclass(slots=True, kw_only=True)
class Anomaly(Operation):
    """An answer that a correct broker never gives."""

    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """A log as it is on disk."""

    batches: Mapping[int, bytes]
    """By base offset."""
    end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Election:
    at: float
    node: str
    term: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    at: float
    node: str
    index: int
    digest: str
    """Of the entry and its term."""


AnyOperation = TypeVar("AnyOperation", bound=Operation)


@dataclass(slots=True)
class History:
    operations: list[Operation] = field(default_factory=list)
    final: dict[TopicPartition, tuple[tuple[int, bytes], ...]] = field(default_factory=dict)
    """All records of each partition when everything is up and quiet again, with their offsets."""
    replicas: dict[TopicPartition, dict[str, Replica]] = field(default_factory=dict)
    """The log of each partition on each node that has it, then."""
    elections: list[Election] = field(default_factory=list)
    """Who was seen leading the quorum."""
    applied: list[Applied] = field(default_factory=list)
    """What each node took for committed metadata, as it did."""

    def add(self, operation: AnyOperation) -> AnyOperation:
        self.operations.append(operation)
        return operation

    def of(
        self, kind: type[AnyOperation], where: Callable[[AnyOperation], bool] = lambda _: True
    ) -> list[AnyOperation]:
        return [operation for operation in self.operations if isinstance(operation, kind) and where(operation)]

    def acknowledged(self, kind: type[AnyOperation]) -> list[AnyOperation]:
        return self.of(kind, lambda operation: operation.outcome is Outcome.OK)
