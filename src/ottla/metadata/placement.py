"""Which brokers hold the replicas of a new partition.

Leaders go round the open brokers in a ring that changes rack with every step where it can, and host within a rack. The
followers of a partition are taken from the ring after its leader, a rack that has no replica yet first, then a host
that has none: replicas span as many racks as there are, and as many hosts within them. With every full round the
followers start one further from the leader, so that the partitions of a dead broker are taken over by many brokers and
not by its neighbour. Where the first leader sits comes in as `start`: topics of one partition shall not all land on
the same broker.

What is placed stays. Who gets what when something has to move is decided in `balancer_plan`, by the same measure of
crowding, and by `rank`: rendezvous hashing, in which every broker has its own order of preference among all
partitions. The same broker asks for the same partitions whoever plans, and whatever else is in the cluster.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, zip_longest
from typing import NamedTuple, TypeVar
from zlib import crc32

from ottla.config.cluster import Placement
from ottla.errors import BrokerError, ErrorCode
from ottla.metadata.image import BrokerImage, MetadataImage, ResourceType
from ottla.types import TopicId

T = TypeVar("T")

PLACEMENT = "ottla.cluster.placement"
"""The config of a broker that says what may be put on it."""

_UINT64 = 2**64 - 1


class Seat(NamedTuple):
    """A broker in the ring."""

    broker_id: int
    rack: str
    host: tuple[str, str]
    """With its rack: brokers in two racks are never on one host, whatever their addresses look like."""


_PLACEMENTS = {placement.value: placement for placement in Placement}


def placement_of(image: MetadataImage, broker_id: int) -> Placement:
    """A word that this version does not know means nothing to it."""
    said = image.config_of(ResourceType.BROKER, str(broker_id)).get(PLACEMENT)
    return _PLACEMENTS.get(said, Placement.OPEN) if said is not None else Placement.OPEN


def open_brokers(image: MetadataImage) -> list[BrokerImage]:
    """Those that new replicas may be put on: in service, and to stay there."""
    return [
        broker
        for broker in image.brokers.values()
        if broker.is_active and not placement_of(image, broker.broker_id).is_leaving
    ]


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


def seat_of(broker: BrokerImage) -> Seat:
    rack = broker.rack or ""
    return Seat(broker.broker_id, rack, (rack, broker.endpoints[0].host if broker.endpoints else ""))


def seats(brokers: Iterable[BrokerImage]) -> list[Seat]:
    """The active brokers in their ring: one of each rack, then the next of each. The same brokers, the same ring."""
    racks: dict[str, dict[tuple[str, str], list[Seat]]] = {}
    for broker in sorted(brokers, key=lambda broker: broker.broker_id):
        if broker.is_active:
            seat = seat_of(broker)
            racks.setdefault(seat.rack, {}).setdefault(seat.host, []).append(seat)
    return _in_turns([_in_turns(hosts.values()) for _, hosts in sorted(racks.items())])


def _in_turns(columns: Iterable[Sequence[T]]) -> list[T]:
    """One of each, then the next of each, until all are empty."""
    return [item for item in chain.from_iterable(zip_longest(*columns)) if item is not None]


def _replicas(ring: Sequence[Seat], start: int, partition: int, replication_factor: int) -> tuple[int, ...]:
    at = (start + partition) % len(ring)
    leader = ring[at]
    if replication_factor == 1:
        return (leader.broker_id,)
    others = [*ring[at + 1 :], *ring[:at]]
    shift = (partition // len(ring)) % len(others)
    followers = least_crowded([*others[shift:], *others[:shift]], (leader,))
    return (leader.broker_id, *(next(followers).broker_id for _ in range(replication_factor - 1)))


def least_crowded(candidates: Sequence[Seat], taken: Iterable[Seat] = ()) -> Iterator[Seat]:
    """All candidates, each time the first whose rack has been used least, and whose host has."""
    left = list(candidates)
    racks, hosts = Counter[str](), Counter[tuple[str, str]]()
    for seat in taken:
        racks[seat.rack] += 1
        hosts[seat.host] += 1
    while left:
        best = min(left, key=lambda seat: (racks[seat.rack], hosts[seat.host]))
        left.remove(best)
        racks[best.rack] += 1
        hosts[best.host] += 1
        yield best


def crowding(replicas: Sequence[Seat]) -> tuple[int, int]:
    """How many pairs of replicas share a rack, and how many share a host. Less is better, racks first."""
    in_rack = on_host = 0
    for at, seat in enumerate(replicas):
        for other in replicas[:at]:
            if seat.rack == other.rack:
                in_rack += 1
                on_host += seat.host == other.host
    return in_rack, on_host


def hash_of(topic_id: TopicId, partition: int) -> int:
    """A partition's place in all ranks, the same in every process."""
    return crc32(partition.to_bytes(4, "big"), crc32(topic_id))


def rank(partition_hash: int, broker_id: int) -> int:
    """How much a broker prefers a partition to others: any two brokers disagree as if by chance."""
    mixed = (partition_hash + (broker_id + 1) * 0x9E3779B97F4A7C15) & _UINT64
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & _UINT64
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & _UINT64
    return mixed ^ mixed >> 31
