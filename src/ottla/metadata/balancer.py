"""The balancer: partitions and leaders go where they should be, a few at a time.

**What it does by itself**, on the active controller, as part of `Controller.tick`:

- A broker that has joined is filled up with its share; one that is drained or gone for good is emptied; the cluster's
  own topics get the replicas that they lack (`balancer_plan`).
- Leadership goes back to preferred replicas, and away from brokers that carry too much (`balancer_leaders`).

**Nothing that matters is only in memory.** What is on its way is in the partitions of the image (`reassignments`).
What should be on its way follows from the image too, and from one mark per broker, its config
`ottla.cluster.placement` (`config.cluster.Placement`):

    joining   written with the first registration of a broker in a cluster that has topics, and when one that was gone
              comes back; removed once it has its share, or as much of it as racks and hosts allow
    draining  written by whoever wants the broker out of service
    gone      written by the controller for a broker that has been fenced for `cluster.broker_gone_after_ms`
    open      the same as no mark

So a controller that takes over plans anew, from where everything is by then, and nothing moves twice; what it counts
again from zero is only for how long a broker has been away or back.

**It is throttled**: `rebalance_moves_max` partitions at once, `rebalance_bytes_max` of them in size where sizes are
known. Moves that clients have asked for count too. Those whose new broker is away do not: they wait for it.

**It does not thrash.** A plan of what a plan leads to is empty; leaders move because of load by the hysteresis of
`balancer_leaders`, and one that has moved must then stay, the second time twice as long and so on, in case the figures
lead astray.

**The doors for a person** (`ottla cluster plan | rebalance | decommission`) are plain Kafka, no API of Ottla's own:

- *decommission N*: IncrementalAlterConfigs, resource BROKER `N`, SET `ottla.cluster.placement=draining`. The controller
  drains it, also with `auto_rebalance_enable=false`. It is done when no partition of Metadata names N among its
  replicas; if the plan has `blocked` entries for N they say why it can't be. Then: remove N from the voters if it is
  one, stop it, UnregisterBroker. Taken back with SET `open`, or `joining` to have it filled again.
- *plan*: `image_of(...)` makes an image from the answers of Metadata (all topics), DescribeCluster (v2, fenced brokers
  included), ListPartitionReassignments and DescribeConfigs (BROKER N for the mark, asked of broker N, key
  `ottla.cluster.placement`); `plan_moves(image, scope=Scope.ALL)` gives moves and what is blocked, each with its
  reason. What the cluster does by itself is `Scope.AUTOMATIC`.
- *rebalance*: AlterPartitionReassignments with `move.replicas` of each move of such a plan, a few at a time
  (ListPartitionReassignments tells when they are done), then ElectLeaders (preferred).
"""

from collections import deque
from collections.abc import Collection, Iterator, Mapping
from math import inf
from typing import NamedTuple

from ottla.config import BrokerConfig
from ottla.config.cluster import Placement
from ottla.metadata import reassignments
from ottla.metadata.balancer_leaders import LeaderMove, Loads, PartitionKey, back_to_preferred, by_load, leadership
from ottla.metadata.balancer_plan import Move, Scope, plan_moves
from ottla.metadata.image import MetadataImage, ResourceType
from ottla.metadata.internal_topics import INTERNAL_TOPICS, needed_topic
from ottla.metadata.placement import PLACEMENT, placement_of
from ottla.metadata.records import MetadataRecord
from ottla.protocol.messages.metadata_records import ConfigRecord

IDLE_MS, BUSY_MS = 1_000, 250
PLAN_MAX = 200
"""Moves that are planned ahead: a plan for 10,000 partitions takes a tenth of a second, however short it is."""
BLOCKED_MS = 5_000
"""When to plan again after nothing could be done about what should be."""
LEAVING_MS = 30_000
"""When to plan again while a broker is to be empty."""
LEADERS_MAX = 200
"""Leaders that go back to their preferred brokers at once."""
RELIEF_MAX = 10
"""Leaders that move at once because of load."""
HOLD_MS = 300_000
"""How long a leader that moved because of load stays where it is, the first time."""


def mark(broker_id: int, placement: Placement) -> ConfigRecord:
    return ConfigRecord(
        resource_type=ResourceType.BROKER,
        resource_name=str(broker_id),
        name=PLACEMENT,
        value=None if placement == Placement.OPEN else placement.value,
    )


def joined(config: BrokerConfig, image: MetadataImage, broker_id: int) -> list[ConfigRecord]:
    """To be written with the registration of a broker that was not registered before: it shall get its share."""
    wanted = config.cluster.auto_rebalance_enable and image.topics and broker_id not in image.brokers
    return [mark(broker_id, Placement.JOINING)] if wanted else []


def left(image: MetadataImage, broker_id: int) -> list[ConfigRecord]:
    """To be written when a broker is unregistered: whoever gets its id begins anew."""
    return [] if placement_of(image, broker_id) == Placement.OPEN else [mark(broker_id, Placement.OPEN)]


class _Hold(NamedTuple):
    until_ms: int
    times: int


class Balancer:
    """What the active controller remembers between two looks at the image. All of it may be lost."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self.loads = Loads()
        """The newest figures; whoever has them puts them here."""
        self._active_since: dict[tuple[int, int], int] = {}
        """By broker and broker epoch."""
        self._away_since: dict[int, int] = {}
        self._due_ms = 0
        self._leaders_due_ms = 0
        self._relief_due_ms = 0
        self._led = -1
        """Tells whether leadership has changed (`leadership`)."""
        self._led_since_ms = 0
        self._quiet: tuple[object, object] = (None, None)
        """The brokers and configs of an image that asked for nothing."""
        self._quiet_until_ms: float = 0
        self._planned: deque[Move] = deque()
        self._planned_for: tuple[object, object] = (None, None)
        """The brokers and configs of the image that the plan was made for."""
        self._holds: dict[PartitionKey, _Hold] = {}

    def next_deadline_ms(self, image: MetadataImage) -> int | None:
        """A cluster of one has nowhere to move anything."""
        return self._due_ms if len(image.brokers) > 1 else None

    def tick(self, image: MetadataImage, reassigning: Collection[PartitionKey], now_ms: int) -> list[MetadataRecord]:
        """What to write now. `reassigning`: the partitions that are on their way."""
        if now_ms < self._due_ms or len(image.brokers) < 2:
            return []
        self._due_ms = now_ms + IDLE_MS
        self._watch(image, now_ms)
        records = self._step(image, reassigning, now_ms)
        if records or reassigning:
            self._due_ms = now_ms + BUSY_MS
        return records

    def _step(self, image: MetadataImage, reassigning: Collection[PartitionKey], now_ms: int) -> list[MetadataRecord]:
        """One kind of record at a time: each is based on an image in which nothing else has changed."""
        return (
            list(self._marks(image, now_ms))
            or list(_finished(image, reassigning))
            or self._moves(image, reassigning, now_ms)
            or self._leaders(image, now_ms)
        )

    # Who is there

    def _watch(self, image: MetadataImage, now_ms: int) -> None:
        """Since when each process of a broker has been in service, and since when each broker has been fenced. One that
        stops cleanly is neither until it is."""
        active = {broker.broker_id: broker.broker_epoch for broker in image.brokers.values() if broker.is_active}
        away = [broker.broker_id for broker in image.brokers.values() if broker.fenced]
        self._active_since = {process: self._active_since.get(process, now_ms) for process in active.items()}
        self._away_since = {broker_id: self._away_since.get(broker_id, now_ms) for broker_id in away}

    def _settled(self, image: MetadataImage, now_ms: int) -> Collection[int]:
        """Brokers that may be given leadership: in service for a while, and not to be emptied."""
        delay_ms = self._config.cluster.leader_rebalance_delay_ms
        return {
            broker_id
            for (broker_id, _), since_ms in self._active_since.items()
            if now_ms - since_ms >= delay_ms and not placement_of(image, broker_id).is_leaving
        }

    def _marks(self, image: MetadataImage, now_ms: int) -> Iterator[ConfigRecord]:
        cluster = self._config.cluster
        for broker_id, broker in image.brokers.items():
            placement = placement_of(image, broker_id)
            if broker.is_active and placement == Placement.GONE:
                yield mark(broker_id, Placement.JOINING if cluster.auto_rebalance_enable else Placement.OPEN)
            elif broker.fenced and not placement.is_leaving:
                away_ms = now_ms - self._away_since[broker_id]
                if cluster.auto_rebalance_enable and 0 < cluster.broker_gone_after_ms <= away_ms:
                    yield mark(broker_id, Placement.GONE)

    # Replicas

    def _moves(self, image: MetadataImage, reassigning: Collection[PartitionKey], now_ms: int) -> list[MetadataRecord]:
        free = self._config.cluster.rebalance_moves_max - sum(
            _is_copying(image, topic_id, index) for topic_id, index in reassigning
        )
        if free <= 0 or self._is_quiet(image, now_ms):
            return []
        if not self._still_planned(image):
            plan = plan_moves(
                image, scope=Scope.AUTOMATIC, limit=PLAN_MAX, replication_factors=self._replication_factors()
            )
            self._planned, self._planned_for = deque(plan.moves), (image.brokers, image.configs)
            if not plan.moves:
                return self._nothing_to_move(image, now_ms, is_settled=not reassigning, is_blocked=bool(plan.blocked))
        return self._started(image, self._within_bytes(free, reassigning))

    def _still_planned(self, image: MetadataImage) -> bool:
        """Whether there is a plan that is right: the brokers are the same, and so is what shall be on them. Moves of
        partitions that have changed since are dropped."""
        brokers, configs = self._planned_for
        if brokers is not image.brokers or configs is not image.configs:
            self._planned.clear()
        self._planned = deque(move for move in self._planned if _is_current(image, move))
        return bool(self._planned)

    def _nothing_to_move(
        self, image: MetadataImage, now_ms: int, *, is_settled: bool, is_blocked: bool
    ) -> list[MetadataRecord]:
        """Look again when the brokers change, or soon if something is under way or in the way; and now and then while
        a broker is to be empty, since clients can put partitions on it."""
        has_leaving = any(placement_of(image, broker_id).is_leaving for broker_id in image.brokers)
        again_ms = IDLE_MS if not is_settled else BLOCKED_MS if is_blocked else LEAVING_MS if has_leaving else inf
        self._quiet, self._quiet_until_ms = (image.brokers, image.configs), now_ms + again_ms
        return list(self._done_joining(image)) if is_settled else []

    def _done_joining(self, image: MetadataImage) -> Iterator[ConfigRecord]:
        """Whoever was joining has what it can have."""
        for broker_id, broker in image.brokers.items():
            if broker.is_active and placement_of(image, broker_id) == Placement.JOINING:
                yield mark(broker_id, Placement.OPEN)

    def _is_quiet(self, image: MetadataImage, now_ms: int) -> bool:
        """Whether a plan for these brokers asked for nothing. New topics alone are no reason to look again: they are
        placed as they should be."""
        brokers, configs = self._quiet
        return brokers is image.brokers and configs is image.configs and now_ms < self._quiet_until_ms

    def _replication_factors(self) -> Mapping[str, int]:
        """The cluster's own topics have as many replicas as they should, as far as there are brokers for that."""
        if not self._config.cluster.auto_rebalance_enable:
            return {}
        needed = (needed_topic(name, self._config) for name in sorted(INTERNAL_TOPICS))
        return {topic.name: topic.replication_factor for topic in needed if topic is not None}

    def _within_bytes(self, count: int, reassigning: Collection[PartitionKey]) -> Iterator[Move]:
        """The next of what is planned, as many as may be on their way at once; one in any case."""
        under_way = sum(self.loads.size_bytes(key) for key in reassigning)
        while self._planned and count > 0:
            move = self._planned[0]
            size = self.loads.size_bytes((move.topic_id, move.partition)) * len(move.added)
            if under_way and under_way + size > self._config.cluster.rebalance_bytes_max:
                return
            under_way += size
            count -= 1
            yield self._planned.popleft()

    def _started(self, image: MetadataImage, moves: Iterator[Move]) -> list[MetadataRecord]:
        records = (reassignments.moved(image, move.topic_id, move.partition, move.replicas) for move in moves)
        return [record for record in records if record is not None]

    # Leaders

    def _leaders(self, image: MetadataImage, now_ms: int) -> list[MetadataRecord]:
        cluster = self._config.cluster
        if not cluster.auto_leader_rebalance_enable or now_ms < self._leaders_due_ms:
            return []
        delay_ms = cluster.leader_rebalance_delay_ms
        self._leaders_due_ms = now_ms + min(delay_ms, max(IDLE_MS, delay_ms // 4))
        settled = self._settled(image, now_ms)
        moves = back_to_preferred(image, settled, LEADERS_MAX) or self._relief(image, settled, now_ms)
        return [
            reassignments.led_by(image, move.topic_id, move.partition, move.leader, move.replicas) for move in moves
        ]

    def _relief(self, image: MetadataImage, settled: Collection[int], now_ms: int) -> list[LeaderMove]:
        """Not before leadership has rested for as long as it takes until all figures are from after its last change."""
        now_led = leadership(image)
        if now_led != self._led:
            self._led, self._led_since_ms = now_led, now_ms
        delay_ms = self._config.cluster.leader_rebalance_delay_ms
        if now_ms < max(self._led_since_ms + delay_ms, self._relief_due_ms):
            return []
        self._relief_due_ms = now_ms + delay_ms
        held = {key for key, hold in self._holds.items() if now_ms < hold.until_ms}
        moves = by_load(image, self.loads, settled, held, RELIEF_MAX)
        for move in moves:
            self._hold((move.topic_id, move.partition), now_ms)
        return moves

    def _hold(self, key: PartitionKey, now_ms: int) -> None:
        times = self._holds[key].times + 1 if key in self._holds else 0
        self._holds[key] = _Hold(now_ms + (HOLD_MS << min(times, 20)), times)


def _finished(image: MetadataImage, reassigning: Collection[PartitionKey]) -> Iterator[MetadataRecord]:
    """Moves that are done but for the record that says so: whoever lets a replica into the in-sync set writes it, but
    brokers also come back into service without that."""
    for topic_id, index in sorted(reassigning):
        partition = image.topics_by_id[topic_id].partitions[index]
        record = reassignments.completed(image.brokers, topic_id, index, partition)
        if record is not None:
            yield record


def _is_current(image: MetadataImage, move: Move) -> bool:
    topic = image.topics_by_id.get(move.topic_id)
    partition = None if topic is None else topic.partitions.get(move.partition)
    return partition is not None and partition.replicas == move.before


def _is_copying(image: MetadataImage, topic_id: bytes, index: int) -> bool:
    """Whether a move uses any broker's time: one whose new replicas are all away does not."""
    partition = image.topics_by_id[topic_id].partitions[index]
    adding = [image.brokers.get(broker_id) for broker_id in partition.adding_replicas]
    return not adding or any(broker is not None and broker.is_active for broker in adding)
