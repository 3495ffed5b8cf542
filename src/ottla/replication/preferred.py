"""From which replica a consumer should read: one in its own rack, if there is one that can serve it (KIP-392)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.replication.partition import Partition

NO_PREFERENCE = -1


def preferred_replica(partition: Partition, rack: str, offset: int, rack_of: Callable[[int], str | None]) -> int:
    """The follower in `rack` that has come furthest; NO_PREFERENCE if the leader is in it, or nobody can serve.

    Only one that is in sync and has what is asked for: another would send the consumer back.
    """
    if rack_of(partition.node_id) == rack:
        return NO_PREFERENCE
    best, best_offset = NO_PREFERENCE, offset - 1
    for replica_id, follower in partition.followers.items():
        if follower.end_offset > best_offset and replica_id in partition.isr and rack_of(replica_id) == rack:
            best, best_offset = replica_id, follower.end_offset
    return best
