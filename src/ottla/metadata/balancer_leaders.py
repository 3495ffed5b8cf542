"""Who should lead: the preferred replica, and which replica that should be given what partitions really carry.

Leadership moves among in-sync replicas at the cost of a short pause, nothing is copied. Where it moves because of load
the replicas are put into a new order too, so that the preferred leader and the leader that load wants are one and the
same: two rules that pull in different directions would never rest.

**Hysteresis.** Nothing happens before a broker carries a quarter more than the mean. Then leaders move until no broker
carries a tenth more, but only where a move takes at least a twentieth of the mean off the more loaded of its two
brokers. Each such move lowers the sum of the squares of the loads, so with loads that stay the same it ends, and stays
ended; a load that sways by less than the gap between the two thresholds moves nothing.

**What a partition carries** is known exactly only by its leader. A broker's figures from gossip are shared out among
the partitions that it leads: by how fast their logs grow where that is known, otherwise evenly. Figures that were
measured while somebody else led say nothing, so whoever calls `by_load` first lets leadership rest for a while.
"""

from collections import defaultdict
from collections.abc import Collection, Container, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.membership.member import Load
from ottla.metadata.image import MetadataImage, PartitionImage, TopicImage
from ottla.metadata.placement import open_brokers
from ottla.metadata.reassignments import is_moving
from ottla.types import TopicId
from ottla.values import value

PartitionKey = tuple[TopicId, int]

START, STOP, GAIN = 0.25, 0.10, 0.05
"""Parts of the mean load: what sets moves off, what ends them, what a move must be good for."""
REQUEST_BYTES = 4096
"""A request costs a broker about as much as this many bytes of records."""
IDLE_BYTES_PER_S = 2**20
"""Below this nobody is worth relieving."""


class PartitionLoad(NamedTuple):
    bytes_per_s: float = 0.0
    """How fast its log grows."""
    size_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Loads:
    """What is known of who carries how much. Anything may be missing."""

    brokers: Mapping[int, Load] = field(default_factory=dict)
    partitions: Mapping[PartitionKey, PartitionLoad] = field(default_factory=dict)

    def size_bytes(self, key: PartitionKey) -> int:
        known = self.partitions.get(key)
        return 0 if known is None else known.size_bytes


@value
class LeaderMove:
    topic: str
    topic_id: TopicId
    partition: int
    before: int
    leader: int
    replicas: tuple[int, ...]
    """In their new order of preference."""
    reason: str


def back_to_preferred(image: MetadataImage, settled: Container[int], limit: int) -> list[LeaderMove]:
    """Leadership returns to replicas that are in sync again, on brokers that have been in service for a while."""
    moves: list[LeaderMove] = []
    for topic, index, partition in _resting(image):
        preferred = partition.replicas[0]
        if preferred != partition.leader and preferred in partition.isr and preferred in settled:
            why = f"broker {preferred} is its preferred leader and in sync"
            moves.append(_leader_move(topic, index, partition, preferred, partition.replicas, why))
            if len(moves) >= limit:
                break
    return moves


def by_load(
    image: MetadataImage, loads: Loads, settled: Container[int], held: Container[PartitionKey], limit: int
) -> list[LeaderMove]:
    """Leaders leave brokers that carry much more than others. `held`: partitions that must stay as they are."""
    able = [broker.broker_id for broker in open_brokers(image) if broker.broker_id in settled]
    if len(able) < 2 or _is_idle(loads, able):
        return []
    weights = weights_of(image, loads)
    return [] if weights is None else _Relief(image, weights, able, held).moves(limit)


def _is_idle(loads: Loads, brokers: Collection[int]) -> bool:
    """Spares an idle cluster a look at all its partitions."""
    known = [cost_of(loads.brokers[broker_id]) for broker_id in brokers if broker_id in loads.brokers]
    return len(known) == len(brokers) and max(known) < IDLE_BYTES_PER_S


def leadership(image: MetadataImage) -> int:
    """A number that is another one whenever somebody else leads something."""
    return sum(partition.leader_epoch for topic in image.topics.values() for partition in topic.partitions.values())


def weights_of(image: MetadataImage, loads: Loads) -> Mapping[PartitionKey, float] | None:
    """What each partition costs its leader; None if that can't be told for all that lead."""
    led: defaultdict[int, list[PartitionKey]] = defaultdict(list)
    for topic in image.topics.values():
        for index, partition in topic.partitions.items():
            led[partition.leader].append((topic.topic_id, index))
    weights: dict[PartitionKey, float] = {}
    for broker_id in image.brokers:
        keys = led.get(broker_id)
        if keys is None:
            continue
        growth = {key: loads.partitions[key].bytes_per_s for key in keys if key in loads.partitions}
        load = loads.brokers.get(broker_id)
        if load is None and len(growth) < len(keys):
            return None
        weights.update(_shared_out(keys, growth, sum(growth.values()) if load is None else cost_of(load)))
    return weights


def cost_of(load: Load) -> float:
    return load.bytes_in_per_s + load.bytes_out_per_s + load.requests_per_s * REQUEST_BYTES


def _shared_out(
    keys: list[PartitionKey], growth: Mapping[PartitionKey, float], cost: float
) -> Iterator[tuple[PartitionKey, float]]:
    total = sum(growth.values())
    for key in keys:
        yield key, cost * growth.get(key, 0.0) / total if total > 0 else cost / len(keys)


def _resting(image: MetadataImage) -> Iterator[tuple[TopicImage, int, PartitionImage]]:
    """Partitions that are led and not on their way to other replicas."""
    for topic in image.topics.values():
        for index, partition in topic.partitions.items():
            if partition.leader >= 0 and not is_moving(partition):
                yield topic, index, partition


def _leader_move(
    topic: TopicImage, index: int, partition: PartitionImage, leader: int, replicas: tuple[int, ...], reason: str
) -> LeaderMove:
    return LeaderMove(
        topic=topic.name,
        topic_id=topic.topic_id,
        partition=index,
        before=partition.leader,
        leader=leader,
        replicas=replicas,
        reason=reason,
    )


class _Led(NamedTuple):
    topic: TopicImage
    partition_id: int
    partition: PartitionImage
    weight: float


class _Option(NamedTuple):
    """A leader that could go, the best first: of two that help as much, to whom carries less, and the one that does."""

    after: float
    """What the more loaded of the two brokers would carry."""
    receiver_load: float
    weight: float
    at: int
    receiver: int


class _Relief:
    """One pass over the leaders of a cluster."""

    def __init__(
        self,
        image: MetadataImage,
        weights: Mapping[PartitionKey, float],
        able: list[int],
        held: Container[PartitionKey],
    ) -> None:
        self._able = frozenset(able)
        self._load: defaultdict[int, float] = defaultdict(float)
        self._led: defaultdict[int, list[_Led]] = defaultdict(list)
        for topic in image.topics.values():
            for index, partition in topic.partitions.items():
                key = (topic.topic_id, index)
                weight = weights.get(key, 0.0)
                self._load[partition.leader] += weight
                if weight > 0 and not is_moving(partition) and key not in held:
                    self._led[partition.leader].append(_Led(topic, index, partition, weight))
        self._mean = sum(self._load[broker_id] for broker_id in able) / len(able)

    def moves(self, limit: int) -> list[LeaderMove]:
        worst = max(self._load[broker_id] for broker_id in self._able)
        if worst < IDLE_BYTES_PER_S or worst <= self._mean * (1 + START):
            return []
        moves: list[LeaderMove] = []
        while len(moves) < limit and (move := self._next()) is not None:
            moves.append(move)
        return moves

    def _next(self) -> LeaderMove | None:
        """Relieve the broker that carries most of those that can be relieved."""
        for giver in sorted(self._able, key=lambda broker_id: (-self._load[broker_id], broker_id)):
            if self._load[giver] <= self._mean * (1 + STOP):
                return None
            best = min(self._options(giver), default=None)
            if best is not None:
                return self._apply(giver, best.receiver, self._led[giver][best.at])
        return None

    def _options(self, giver: int) -> Iterator[_Option]:
        """Every move that is worth it."""
        load, enough = self._load, self._load[giver] - self._mean * GAIN
        for at, led in enumerate(self._led[giver]):
            for receiver in led.partition.isr:
                if receiver != giver and receiver in self._able:
                    after = max(load[giver] - led.weight, load[receiver] + led.weight)
                    if after <= enough:
                        yield _Option(after, load[receiver], led.weight, at, receiver)

    def _apply(self, giver: int, receiver: int, led: _Led) -> LeaderMove:
        self._led[giver].remove(led)
        self._load[giver] -= led.weight
        self._load[receiver] += led.weight
        replicas = (receiver, *(replica for replica in led.partition.replicas if replica != receiver))
        why = f"broker {giver} carries more than its share"
        return _leader_move(led.topic, led.partition_id, led.partition, receiver, replicas, why)
