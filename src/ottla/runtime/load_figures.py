"""What the balancer goes by, gathered on the node that has the controller: what brokers carry, as gossip tells it, and
how large the logs of partitions are and how fast they grow, as the brokers that lead them say when asked.

Rates come from the difference between two looks, so nothing is counted where records are written. A look costs a
DescribeLogDirs for each broker, twice in the time that must pass between two decisions about leaders.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.errors import BrokerError
from ottla.metadata.balancer_leaders import Loads, PartitionKey, PartitionLoad
from ottla.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from ottla.runtime.controller_channel import client_address

if TYPE_CHECKING:
    from ottla.config.cluster import ClusterConfig
    from ottla.metadata.image import MetadataImage, TopicImage
    from ottla.ports import Clock
    from ottla.runtime.broker_client import BrokerClient
    from ottla.runtime.gossip import Gossip
    from ottla.runtime.metadata import Metadata
    from ottla.runtime.timers import Deadline, Timers
    from ottla.services import Deferred

SIZES_ONLY = 3
"""The last version of DescribeLogDirs that asks nothing about the disk."""
ANSWER_MS = 5_000
EVERY_MS_MIN = 1_000


class _Seen(NamedTuple):
    size_bytes: int
    at_ms: int
    bytes_per_s: float


class Growth:
    """How fast logs grow, from their sizes at different times."""

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: dict[PartitionKey, _Seen] = {}

    def note(self, key: PartitionKey, size_bytes: int, now_ms: int) -> None:
        """A log that has become smaller has lost old records, which says nothing about new ones."""
        before = self._seen.get(key)
        rate = 0.0 if before is None else before.bytes_per_s
        if before is not None and now_ms > before.at_ms and size_bytes >= before.size_bytes:
            newest = (size_bytes - before.size_bytes) * 1000 / (now_ms - before.at_ms)
            rate = (rate + newest) / 2
        self._seen[key] = _Seen(size_bytes, now_ms, rate)

    def keep(self, image: MetadataImage) -> None:
        """Forget what is deleted."""
        topics = image.topics_by_id
        gone = [key for key in self._seen if key[0] not in topics or key[1] not in topics[key[0]].partitions]
        for key in gone:
            del self._seen[key]

    def loads(self) -> Mapping[PartitionKey, PartitionLoad]:
        return {key: PartitionLoad(seen.bytes_per_s, seen.size_bytes) for key, seen in self._seen.items()}


class LoadFigures:
    def __init__(
        self,
        *,
        metadata: Metadata,
        gossip: Gossip,
        client: BrokerClient,
        config: ClusterConfig,
        clock: Clock,
        timers: Timers,
    ) -> None:
        self._metadata = metadata
        self._gossip = gossip
        self._client = client
        self._every_ms = max(EVERY_MS_MIN, config.leader_rebalance_delay_ms // 2)
        self._clock = clock
        self._timers = timers
        self._growth = Growth()
        self._timer: Deadline | None = None
        metadata.on_active(self._on_active)
        self._on_active(metadata.is_active)

    def _on_active(self, is_active: bool) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if is_active:
            self._growth = Growth()
            self._look()

    def _look(self) -> None:
        self._timer = self._timers.after_ms(self._every_ms, self._look)
        image = self._metadata.image
        if len(image.brokers) < 2:
            return
        self._tell()
        self._growth.keep(image)
        for broker in image.brokers.values():
            address = client_address(image, broker.broker_id)
            if broker.is_active and address is not None:
                request = DescribeLogDirsRequest(topics=None)
                asked = self._client.send(address, request, version=SIZES_ONLY, timeout_ms=ANSWER_MS, channel="figures")
                asked.on_done(partial(self._answered, broker.broker_id))

    def _answered(self, broker_id: int, answer: Deferred[Any]) -> None:
        """What a broker says of the partitions that it leads. One that does not answer is asked again next time."""
        response: DescribeLogDirsResponse | None = answer.value
        if response is None:
            return
        topics, now_ms = self._metadata.image.topics, self._clock.monotonic_ms()
        for result in response.results:
            for told in result.topics:
                topic = topics.get(told.name)
                if topic is not None:
                    self._note(topic, told.partitions, broker_id, now_ms)

    def _note(self, topic: TopicImage, told: Sequence[DescribeLogDirsPartition], broker_id: int, now_ms: int) -> None:
        for log in told:
            partition = topic.partitions.get(log.partition_index)
            if partition is not None and partition.leader == broker_id:
                self._growth.note((topic.topic_id, log.partition_index), log.partition_size, now_ms)

    def _tell(self) -> None:
        """The controller goes by what was learnt since the last look."""
        brokers = {m.node_id: m.load for m in self._gossip.members() if m.load_version and m.is_live}
        loads = Loads(brokers=brokers, partitions=self._growth.loads())
        try:
            self._metadata.call(lambda controller, _token, _now_ms: controller.carry(loads))
        except BrokerError:
            return  # leadership ended in this very moment: the next controller gathers its own
