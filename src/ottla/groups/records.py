"""What a group shard writes to its log. The bytes of it are in `log_format`."""

from __future__ import annotations

from typing import NamedTuple

from ottla.values import value

NEVER_EXPIRES_MS = -1


class OffsetCommitted(NamedTuple):
    """A group has read `partition` of `topic` up to `offset`.

    A tuple and not a dataclass: it is made for every commit, and is itself what a shard keeps of it.
    """

    group_id: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = NEVER_EXPIRES_MS
    """When the client itself said how long to keep it (OffsetCommit v2 to v4)."""


class OffsetDeleted(NamedTuple):
    """The group no longer has an offset for the partition."""

    group_id: str
    topic: str
    partition: int


@value
class MemberMetadata:
    """A member, as it is remembered over a restart."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@value
class GroupMetadata:
    """A group between two rebalances: stable with members, or empty."""

    group_id: str
    protocol_type: str | None
    generation: int
    protocol: str | None
    leader_id: str | None
    state_timestamp_ms: int
    """When the group came into this state; -1 if that is not known."""
    members: tuple[MemberMetadata, ...]


class GroupDeleted(NamedTuple):
    group_id: str


class OffsetPending(NamedTuple):
    """An offset that counts only if the transaction commits that it was written in."""

    producer_id: int
    producer_epoch: int
    offset: OffsetCommitted


class TransactionEnded(NamedTuple):
    """The marker: what a producer has pending counts from here on, or never does."""

    producer_id: int
    producer_epoch: int
    commits: bool
    coordinator_epoch: int
    """Of the transaction coordinator."""


GroupRecord = OffsetCommitted | OffsetDeleted | GroupMetadata | GroupDeleted | OffsetPending | TransactionEnded
