"""Which brokers hold the replicas of a new partition.

Leaders go round the active brokers in a ring that changes rack with every step where it can. The followers of a
partition are taken from the ring after its leader, a rack that has no replica yet first: replicas span as many racks
as there are. With every full round the followers start one further from the leader, so that the partitions of a dead
broker are taken over by many brokers and not by its neighbour. Where the first leader sits comes in as `start`:
topics of one partition shall not all land on the same broker.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ottla.errors import BrokerError, ErrorCode
from ottla.metadata.image import BrokerImage


class Seat(NamedTuple):
    """A broker in the ring."""

    broker_id: int
    rack: str | None


def place(
    brokers: Iterable[BrokerImage], *, partitions: int, replication_factor: int, start: int, first_partition: int = 0
) -> list[tuple[int, ...]]:
    """The replicas of each of `partitions` new partitions, preferred leader first.

    Only active brokers are used. INVALID_REPLICATION_FACTOR if there are too few of them.
    """
    ring = seats(brokers)
    require_enough(len(ring), replication_factor)
    indexes = range(first_partition, first_partition + partitions)
    return [_replicas(ring, start, index, replication_factor) for index in indexes]


def require_enough(available: int, replication_factor: int) -> None:
    if available < replication_factor:
        raise BrokerError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): only {available} broker(s) are "
            "registered and not fenced.",
        )


def seats(brokers: Iterable[BrokerImage]) -> list[Seat]:
    """The active brokers in their ring: one of each rack, then the next of each. The same brokers, the same ring."""
    racks: dict[str, list[Seat]] = {}
    for broker in sorted(brokers, key=lambda broker: broker.broker_id):
        if broker.is_active:
            racks.setdefault(broker.rack or "", []).append(Seat(broker.broker_id, broker.rack))
    columns = [racks[rack] for rack in sorted(racks)]
    rounds = max(map(len, columns), default=0)
    return [column[turn] for turn in range(rounds) for column in columns if turn < len(column)]


def _replicas(ring: Sequence[Seat], start: int, partition: int, replication_factor: int) -> tuple[int, ...]:
    at = (start + partition) % len(ring)
    leader = ring[at]
    if replication_factor == 1:
        return (leader.broker_id,)
    others = [*ring[at + 1 :], *ring[:at]]
    shift = (partition // len(ring)) % len(others)
    followers = _by_unused_rack([*others[shift:], *others[:shift]], leader.rack)
    return (leader.broker_id, *(next(followers).broker_id for _ in range(replication_factor - 1)))


def _by_unused_rack(candidates: Sequence[Seat], leader_rack: str | None) -> Iterator[Seat]:
    """All candidates, each time the first whose rack has been used least."""
    left = list(candidates)
    used: dict[str | None, int] = {leader_rack: 1}
    while left:
        best = min(left, key=lambda seat: used.get(seat.rack, 0))
        left.remove(best)
        used[best.rack] = used.get(best.rack, 0) + 1
        yield best
