"""Some replicas of one partition, their leader and a controller that is always right, in one thread and without I/O.

Everything that decides is the real thing: logs on disks in memory, `Partition`, `ReplicaSession`, `Replica`, `decide`.
Only the ways between them are made of calls, so that a test says what happens when.
"""

from __future__ import annotations

from dataclasses import replace

from ottla.config import LogConfig
from ottla.metadata.image import NO_LEADER, PartitionImage
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from ottla.protocol.records import Record, build_batch, iter_batches, read_records
from ottla.replication.followers import Follower
from ottla.replication.partition import Partition
from ottla.replication.replica import APPEND, Replica, Restart, Truncate, decide
from ottla.replication.replica_sessions import ReplicaSession
from ottla.storage.log import Log, Origin
from ottla.testing.disk import CrashingDisk
from ottla.types import TopicPartition

TOPIC_ID = b"t" * 16
AT = TopicPartition("t", 0)


class Replicas:
    """`nodes` replicas of a partition; node 1 leads at first."""

    def __init__(self, nodes: int = 3, *, min_insync_replicas: int = 1, config: LogConfig | None = None) -> None:
        self.now_ms = 1_000
        self.config = config or LogConfig(min_insync_replicas=min_insync_replicas)
        ids = tuple(range(1, nodes + 1))
        self.image = PartitionImage(leader=NO_LEADER, leader_epoch=0, replicas=ids, isr=ids, partition_epoch=0)
        self.disks = {node: CrashingDisk() for node in ids}
        self.logs = {node: self._open(node, clean=True) for node in ids}
        self.high_watermarks = dict.fromkeys(ids, 0)
        self.roles: dict[int, Partition | Replica] = {}
        self.sessions: dict[int, ReplicaSession] = {}
        self.stopping: set[int] = set()
        """Nodes that can't come in sync."""
        self.caught_up: list[int] = []
        """Followers that the leader would ask to be added."""
        self.elect(1)

    def _open(self, node: int, *, clean: bool) -> Log:
        return Log.open(self.disks[node], "t-0", AT, TOPIC_ID, self.config, clean=clean, now_ms=self.now_ms)

    # The controller

    def elect(self, node: int) -> None:
        """A new leader, in a new epoch; the roles are taken by all at once."""
        image = self.image = replace(
            self.image,
            leader=node,
            leader_epoch=self.image.leader_epoch + 1,
            partition_epoch=self.image.partition_epoch + 1,
        )
        for role in self.roles.values():
            self._remember(role)
            role.end()
        self.sessions = {}
        self.roles = {}
        for replica_id in image.replicas:
            self._take_role(replica_id, image)

    def _take_role(self, node: int, image: PartitionImage) -> None:
        log = self.logs[node]
        known = self.high_watermarks[node]
        if node == image.leader:
            log.begin_epoch(image.leader_epoch, now_ms=0)
            self.roles[node] = Partition(
                topic="t",
                topic_id=TOPIC_ID,
                index=0,
                leader_epoch=image.leader_epoch,
                log=log,
                node_id=node,
                image=image,
                high_watermark=known,
                now_ms=self.now_ms,
                is_welcome=lambda node_id: node_id not in self.stopping,
            )
        else:
            self.roles[node] = Replica(
                topic="t",
                topic_id=TOPIC_ID,
                index=0,
                leader_epoch=image.leader_epoch,
                leader_id=image.leader,
                log=log,
                high_watermark=known,
            )

    def _remember(self, role: Partition | Replica) -> None:
        for node, known in self.roles.items():
            if known is role:
                self.high_watermarks[node] = role.high_watermark

    def set_isr(self, *isr: int) -> None:
        """The controller has committed this, and the leader hears of it."""
        self.image = replace(self.image, isr=isr, partition_epoch=self.image.partition_epoch + 1)
        self.leader.update(self.image, self.now_ms)

    # The leader

    @property
    def leader(self) -> Partition:
        leader = self.roles[self.image.leader]
        assert isinstance(leader, Partition)
        return leader

    def append(self, *values: bytes) -> int:
        """One batch, not yet on disk."""
        records = [
            Record(offset=number, timestamp_ms=self.now_ms, key=None, value=value, headers=())
            for number, value in enumerate(values)
        ]
        batch = build_batch(records)
        leader = self.leader
        return leader.log.append_as_leader(
            batch, leader_epoch=leader.leader_epoch, now_ms=self.now_ms, origin=Origin.COORDINATOR
        )

    def commit(self, node: int | None = None) -> None:
        """What a node has appended is on its disk now."""
        node = self.image.leader if node is None else node
        log = self.logs[node]
        size_bytes = log.pending_bytes
        log.write_pending()
        log.mark_durable(log.end_offset)
        role = self.roles[node]
        if size_bytes:
            role.on_durable(size_bytes)

    def produce(self, *values: bytes) -> int:
        offset = self.append(*values)
        self.commit()
        return offset

    # Followers

    def fetch(self, node: int, *, max_bytes: int = 1 << 20) -> PartitionData | None:
        """A follower's fetch, and what it is told; nothing is done with that yet."""
        session = self.sessions.get(node)
        if session is None:
            session = self.sessions[node] = ReplicaSession(
                1, node, 1, on_urgent=_nothing, on_news=_nothing, on_allowance=_nothing
            )
        replica = self.roles[node]
        named = FetchPartition(
            partition=0,
            current_leader_epoch=replica.leader_epoch,
            fetch_offset=replica.log.end_offset,
            last_fetched_epoch=replica.log.leader_epochs.latest,
            partition_max_bytes=max_bytes,
        )
        request = FetchRequest(topics=[FetchTopic(topic_id=TOPIC_ID, partitions=[named])])
        session.hear(request, lambda *_: self.leader, self._note_caught_up, self.now_ms)
        told = session.answer(max_bytes, lambda *_: self.leader, self.now_ms)
        return told[0].partitions[0] if told else None

    def _note_caught_up(self, _: Partition, follower: Follower) -> None:
        self.caught_up.append(follower.replica_id)

    def take(self, node: int, data: PartitionData | None) -> None:
        """Do as told; what is appended is not on disk yet."""
        replica, log = self.roles[node], self.logs[node]
        assert isinstance(replica, Replica)
        if data is None:
            return
        match decide(log, data):
            case Truncate(offset):
                replica.cut(log.truncate_to(offset))
            case Restart(offset):
                log.truncate_fully_and_start_at(offset)
                replica.cut(offset)
            case decision if decision is APPEND:
                assert isinstance(data.records, bytes)
                log.append_as_follower(data.records, now_ms=self.now_ms)
                replica.heard(data.high_watermark)

    def copy(self, node: int, rounds: int = 1) -> None:
        """Fetch, append, commit: so often."""
        for _ in range(rounds):
            self.take(node, self.fetch(node))
            self.commit(node)

    def values(self, node: int, upto: int | None = None) -> list[bytes | None]:
        log = self.logs[node]
        data = log.read(log.start_offset, 1 << 24, upto_offset=log.written_offset, min_one_batch=True)
        records = [record for batch in iter_batches(data) for record in read_records(batch.data)]
        return [record.value for record in records if upto is None or record.offset < upto]


def _nothing(_: ReplicaSession) -> None:
    """Nobody waits."""
