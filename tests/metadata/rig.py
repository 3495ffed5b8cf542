"""A controller in virtual time, with brokers that register, heartbeat, stop and die, and a check of every change."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ottla.config import BrokerConfig
from ottla.metadata.brokers import BrokerRegistration
from ottla.metadata.controller import REST_MS, Controller
from ottla.metadata.holdings import Holdings
from ottla.metadata.image import NO_LEADER, Endpoint, MetadataImage, PartitionImage
from ottla.metadata.records import MetadataRecord, decode_record, encode_record
from ottla.metadata.snapshot import records_of
from ottla.metadata.state import MetadataState
from ottla.metadata.topic_configs import topic_log_config
from ottla.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from ottla.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.replicated import Result
from ottla.types import TopicId

T = TypeVar("T")

STEP_MS = 100
HEARTBEAT_MS = 200
Key = tuple[TopicId, int]


@dataclass(slots=True)
class Broker:
    """One process at a time, and its disk."""

    broker_id: int
    disk: int = 0
    disk_before: int = 0
    starts: int = 0
    epoch: int = -1
    is_up: bool = False
    is_stopping: bool = False
    lags: bool = False
    """Does not follow the metadata log."""
    applied: int = -1
    last: BrokerHeartbeatResponse = field(default_factory=BrokerHeartbeatResponse)

    def registration(self) -> BrokerRegistration:
        return BrokerRegistration(
            broker_id=self.broker_id,
            incarnation_id=bytes([self.broker_id, self.starts % 256, self.starts // 256]) + bytes(13),
            endpoints=[Endpoint("PLAINTEXT", f"host-{self.broker_id}", 9092, 0)],
            fenced=True,
            log_dirs=[bytes([self.broker_id, self.disk]) + bytes(14)],
        )


class Rig:
    def __init__(self, config: BrokerConfig | None = None) -> None:
        self.config = config or BrokerConfig()
        self.now_ms = 1_000_000
        self.offset = 0
        self.brokers: dict[int, Broker] = {}
        self.committed: dict[Key, int] = {}
        """A partition's last record that is committed."""
        self.has: dict[tuple[Key, int], int] = {}
        """The last record that a replica has on its disk."""
        self.written: list[MetadataRecord] = []
        """What the last act wrote."""
        self.lost_data: set[Key] = set()
        """Partitions that had a replica on a disk that is gone."""
        self.unclean: set[str] = set()
        """Topics that may lose data."""
        self.controller = Controller(self.config, random.Random(0), end_offset=lambda: self.offset)
        self.controller.activate(self.now_ms)

    @property
    def image(self) -> MetadataImage:
        return self.controller.image

    def partition(self, topic: str = "t", index: int = 0) -> PartitionImage:
        return self.image.topics[topic].partitions[index]

    # The runtime's part

    def commit(self, result: Result[MetadataRecord, T]) -> T | None:
        for record in result.records:
            before = self.controller.image
            self.controller.replay(decode_record(*encode_record(record)))
            check_steps(self, before, self.controller.image)
        self.offset += len(result.records)
        self.written += result.records
        check_image(self, self.controller.image)
        return result.response

    def fail_over(self) -> None:
        """Another node becomes the controller."""
        state = MetadataState()
        for record in records_of(self.image):
            state.replay(decode_record(*encode_record(record)))
        assert state.image == self.image
        self.controller = Controller(self.config, random.Random(1), image=state.image, end_offset=lambda: self.offset)
        self.controller.activate(self.now_ms)

    def pass_ms(self, duration_ms: int) -> None:
        until_ms = self.now_ms + duration_ms
        while self.now_ms < until_ms:
            self.tick_all()
            self.now_ms = min(self.now_ms + STEP_MS, until_ms)
            for broker in self.brokers.values():
                if broker.is_up and self.now_ms % HEARTBEAT_MS == 0:
                    self.heartbeat(broker)
        self.tick_all()

    def tick_all(self) -> None:
        now_ms = self.now_ms
        for _ in range(10):
            deadline_ms = self.controller.next_deadline_ms()
            if deadline_ms is None or deadline_ms > now_ms + REST_MS:
                return
            now_ms = max(now_ms, deadline_ms)
            self.commit(self.controller.tick(now_ms))
        raise AssertionError("the controller wants to be called again and again")

    # Brokers

    def start(self, broker_id: int) -> Broker:
        """Until the broker is in service, if it can be."""
        broker = self.brokers.setdefault(broker_id, Broker(broker_id))
        broker.starts += 1
        broker.is_up, broker.is_stopping = False, False
        if broker.disk != broker.disk_before:
            broker.disk_before = broker.disk
            self.has = {place: last for place, last in self.has.items() if place[1] != broker_id}
        self.register(broker)
        broker.is_up = True
        self.heartbeat(broker)
        return broker

    def register(self, broker: Broker) -> None:
        epoch = self.commit(self.controller.register_broker(broker.registration(), self.now_ms))
        assert epoch is not None
        broker.epoch = epoch

    def heartbeat(self, broker: Broker, *, want_fence: bool = False) -> BrokerHeartbeatResponse:
        if not broker.lags:
            broker.applied = self.offset - 1
        request = BrokerHeartbeatRequest(
            broker_id=broker.broker_id,
            broker_epoch=broker.epoch,
            current_metadata_offset=broker.applied,
            want_fence=want_fence,
            want_shut_down=broker.is_stopping,
        )
        response = self.commit(self.controller.heartbeat(request, self.now_ms))
        assert response is not None
        broker.last = response
        if response.should_shut_down:
            broker.is_up = False
        return response

    def kill(self, broker_id: int) -> None:
        self.brokers[broker_id].is_up = False

    def wipe(self, broker_id: int) -> None:
        """The broker is dead, and gets a new disk, with which it will start."""
        broker = self.brokers[broker_id]
        broker.is_up = False
        broker.disk += 1
        self.lost_data |= self.controller._holdings.held_by(broker_id)

    # Partitions

    def write(self, key: Key) -> bool:
        """A record, committed if enough replicas are in sync. The leader believes what the controller told last."""
        topic_id, index = key
        topic = self.image.topics_by_id[topic_id]
        partition = topic.partitions[index]
        leader = self.brokers.get(partition.leader)
        if leader is None or not leader.is_up or len(partition.isr) < self.enough(topic.name, partition):
            return False
        if any(not self.brokers[replica].is_up for replica in partition.isr):
            return False
        self.committed[key] = self.committed.get(key, 0) + 1
        for replica in partition.isr:
            self.has[key, replica] = self.committed[key]
        return True

    def enough(self, topic: str, partition: PartitionImage) -> int:
        wanted = topic_log_config(self.config, self.image, topic).min_insync_replicas
        return min(wanted, len(partition.replicas))

    def alter(self, key: Key, isr: list[int], **overrides: Any) -> int:
        """The leader asks for other in-sync replicas, which have caught up; the error code."""
        topic_id, index = key
        partition = self.image.topics_by_id[topic_id].partitions[index]
        data: dict[str, Any] = {
            "partition_index": index,
            "leader_epoch": partition.leader_epoch,
            "partition_epoch": partition.partition_epoch,
            "new_isr_with_epochs": [
                BrokerState(broker_id=replica, broker_epoch=self.brokers[replica].epoch) for replica in isr
            ],
        }
        request = AlterPartitionRequest(
            broker_id=partition.leader,
            broker_epoch=self.brokers[partition.leader].epoch,
            topics=[RequestTopicData(topic_id=topic_id, partitions=[RequestPartitionData(**data | overrides)])],
        )
        for replica in isr:
            self.has[key, replica] = self.committed.get(key, 0)
        response = self.commit(self.controller.alter_partition(request))
        assert response is not None
        return response.topics[0].partitions[0].error_code


# What must hold


def check_image(rig: Rig, image: MetadataImage) -> None:
    """After each decision."""
    for topic in image.topics.values():
        for index, partition in topic.partitions.items():
            check_partition(rig, topic.name, (topic.topic_id, index), partition)
    check_holdings(rig, image)


def check_steps(rig: Rig, before: MetadataImage, after: MetadataImage) -> None:
    """After each record."""
    for topic in after.topics.values():
        old = before.topics_by_id.get(topic.topic_id)
        if old is not None and old is not topic:
            for index, partition in topic.partitions.items():
                check_step(rig, topic.name, (topic.topic_id, index), old.partitions.get(index), partition)


def check_partition(rig: Rig, topic: str, key: Key, partition: PartitionImage) -> None:
    isr, eligible = set(partition.isr), set(partition.eligible_leader_replicas)
    assert len(isr) == len(partition.isr)
    assert isr | eligible <= set(partition.replicas)
    assert not isr & eligible
    assert partition.leader == NO_LEADER or partition.leader in isr
    assert isr or partition.leader == NO_LEADER
    assert isr or eligible or key in rig.lost_data, "who could ever lead it?"
    assert not eligible or len(isr) < rig.enough(topic, partition), "records are committed without the eligible ones"
    if len(partition.replicas) > 1 and not partition.adding_replicas and topic not in rig.unclean:
        assert all(not rig.image.brokers[replica].fenced for replica in isr), "who is fenced is not in sync"
    for replica in isr | eligible:
        has_all = rig.has.get((key, replica), 0) == rig.committed.get(key, 0)
        assert has_all or topic in rig.unclean, f"{replica} misses what is committed"


def check_step(rig: Rig, topic: str, key: Key, old: PartitionImage | None, new: PartitionImage) -> None:
    if old is None:
        return
    assert (new == old) == (new.partition_epoch == old.partition_epoch)
    assert new.partition_epoch >= old.partition_epoch
    assert new.leader_epoch >= old.leader_epoch
    assert new.leader == old.leader or new.leader_epoch > old.leader_epoch
    if new.leader not in (old.leader, NO_LEADER) and new.leader not in (*old.isr, *old.eligible_leader_replicas):
        assert topic in rig.unclean, "nobody allowed an unclean leader"
        assert new.isr == (new.leader,)
        rig.committed[key] = rig.has.get((key, new.leader), 0)


def check_holdings(rig: Rig, image: MetadataImage) -> None:
    kept, fresh = rig.controller._holdings, Holdings(image)
    assert kept.leaderless == fresh.leaderless
    assert kept.reassigning == fresh.reassigning
    for broker_id in range(10):
        assert kept.held_by(broker_id) == fresh.held_by(broker_id)
        assert kept.shared_in_sync_at(broker_id) == fresh.shared_in_sync_at(broker_id)
        assert kept.shared_led_by(broker_id) == fresh.shared_led_by(broker_id)
