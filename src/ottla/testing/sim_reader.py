"""A reader of some partitions, with a fetch session on each of their leaders or, as librdkafka does, with none.

It names the leader epoch that it knows in every request, so an answer is one of that epoch or a refusal.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ottla.errors import CorruptBatchError, ErrorCode
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, PartitionData
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.records import check_crc, iter_batches, read_records
from ottla.testing.history import Anomaly, LatestOffset, Outcome, Poll
from ottla.testing.sim_wire import Address, UnavailableError, pause
from ottla.types import TopicPartition

if TYPE_CHECKING:
    from ottla.testing.sim_client import SimClient

FETCH_VERSION = 12
LIST_OFFSETS_VERSION = 7
LATEST = -1
WAIT_MS = 200
LATEST_EVERY = 0.1
"""How likely a poll is followed by the question where the log ends."""
SESSION_IS_LOST = frozenset({ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH})
FETCH_NEVER_RIGHT = frozenset(
    {ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.CORRUPT_MESSAGE, ErrorCode.OFFSET_OUT_OF_RANGE}
)


Wanted = dict[TopicPartition, tuple[int, int]]
"""Offset and leader epoch."""


class Session:
    """What a leader remembers of this reader, so that only what changed has to be said."""

    def __init__(self) -> None:
        self.id = 0
        self.epoch = 0
        self.told: Wanted = {}

    def news(self, wanted: Wanted) -> Wanted:
        return {partition: place for partition, place in wanted.items() if self.told.get(partition) != place}

    def answered(self, session_id: int, wanted: Wanted) -> None:
        if session_id:
            self.epoch = 1 if session_id != self.id else self.epoch + 1
            self.told = dict(wanted)
        self.id = session_id


class NoSession(Session):
    """Everything is said every time."""

    def __init__(self) -> None:
        super().__init__()
        self.epoch = -1

    def answered(self, session_id: int, wanted: Wanted) -> None:
        pass


class SimReader:
    def __init__(self, client: SimClient, name: str, positions: dict[TopicPartition, int]) -> None:
        self.positions = dict(positions)
        """The next offset to read of each partition."""
        self.high_watermarks: dict[TopicPartition, int] = {}
        self._name = name
        self._client = client
        self._sessions: dict[Address, Session] = {}
        self._restarts = 0
        self._max_bytes = client.dice.choice((200, 4_000, 1_000_000))
        self._new_session = client.dice.choice((Session, NoSession))

    async def run(self) -> None:
        """Read until the client stops."""
        while not self._client.is_stopping:
            try:
                await self.poll()
            except UnavailableError:
                self.start_over()
                await pause(self._client.dice, 0.2)
            await pause(self._client.dice, self._client.pace_s)

    def start_over(self) -> None:
        self._client.cluster.forget_leaders()
        self._sessions.clear()

    async def poll(self) -> None:
        """Ask every leader once."""
        by_leader: dict[tuple[int, Address], Wanted] = {}
        for partition, offset in self.positions.items():
            leader = await self._client.cluster.leader(partition)
            by_leader.setdefault((leader.node_id, leader.address), {})[partition] = (offset, leader.epoch)
        for (node_id, address), wanted in by_leader.items():
            await self._fetch(node_id, address, wanted)
        if self.positions and self._client.dice.random() < LATEST_EVERY:
            await self._ask_latest(self._client.dice.choice(list(self.positions)))

    async def _fetch(self, node_id: int, leader: Address, wanted: Wanted) -> None:
        session = self._sessions.setdefault(leader, self._new_session())
        began = self._client.now()
        answer = await self._client.cluster.ask(leader, self._request(session, wanted), FETCH_VERSION)
        if answer.error_code != ErrorCode.NONE:
            if answer.error_code not in SESSION_IS_LOST:
                self._surprise(f"fetch was answered with {ErrorCode(answer.error_code).name}")
            del self._sessions[leader]
            return
        session.answered(answer.session_id, wanted)
        for topic in answer.responses:
            for data in topic.partitions:
                partition = TopicPartition(topic.topic, data.partition_index)
                if partition in wanted:
                    self._take(partition, data, began, node_id, wanted[partition][1])

    async def _ask_latest(self, partition: TopicPartition) -> None:
        """Where the log ends for readers: what a consumer asks for that starts at the end."""
        leader = await self._client.cluster.leader(partition)
        asked = ListOffsetsPartition(
            partition_index=partition.partition, current_leader_epoch=leader.epoch, timestamp=LATEST
        )
        request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=partition.topic, partitions=[asked])], replica_id=-1)
        began = self._client.now()
        answer = await self._client.cluster.ask(leader.address, request, LIST_OFFSETS_VERSION)
        found = answer.topics[0].partitions[0]
        if found.error_code == ErrorCode.NONE:
            latest = LatestOffset(
                client=self._name,
                began=began,
                partition=partition,
                offset=found.offset,
                leader=leader.node_id,
                epoch=leader.epoch,
            )
            latest.end(Outcome.OK, self._client.now())
            self._client.history.add(latest)

    def _request(self, session: Session, wanted: Wanted) -> FetchRequest:
        gone = [partition for partition in session.told if partition not in wanted]
        return FetchRequest(
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            max_bytes=self._max_bytes,
            session_id=session.id,
            session_epoch=session.epoch,
            topics=[
                FetchTopic(topic=partition.topic, partitions=[self._wanted(partition, *place)])
                for partition, place in session.news(wanted).items()
            ],
            forgotten_topics_data=[
                ForgottenTopic(topic=partition.topic, partitions=[partition.partition]) for partition in gone
            ],
        )

    def _wanted(self, partition: TopicPartition, offset: int, epoch: int) -> FetchPartition:
        return FetchPartition(
            partition=partition.partition,
            current_leader_epoch=epoch,
            fetch_offset=offset,
            partition_max_bytes=self._max_bytes,
        )

    def _take(self, partition: TopicPartition, data: PartitionData, began: float, leader: int, epoch: int) -> None:
        if data.error_code != ErrorCode.NONE:
            self._refused(partition, data)
            return
        records = tuple(self._records(partition, data.records))
        self.high_watermarks[partition] = data.high_watermark
        if records:
            self.positions[partition] = records[-1][0] + 1
        poll = Poll(
            client=f"{self._name}.{self._restarts}",
            began=began,
            partition=partition,
            records=records,
            high_watermark=data.high_watermark,
            leader=leader,
            epoch=epoch,
        )
        poll.end(Outcome.OK, self._client.now())
        self._client.history.add(poll)

    def _records(self, partition: TopicPartition, data: Any) -> Iterable[tuple[int, bytes]]:
        position = self.positions[partition]
        try:
            for batch in iter_batches(data or b""):
                check_crc(batch)
                for record in read_records(batch.data):
                    if record.offset >= position:
                        yield record.offset, record.value or b""
        except CorruptBatchError as error:
            self._surprise(f"{partition} was served with a damaged batch: {error}")

    def _refused(self, partition: TopicPartition, data: PartitionData) -> None:
        code = data.error_code
        if code in FETCH_NEVER_RIGHT:
            self._surprise(f"{ErrorCode(code).name} for {partition} at {self.positions[partition]}")
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._restarts += 1
            self.positions = dict.fromkeys(self.positions, 0)
        self.start_over()
        self._client.cluster.told(partition, data.current_leader)

    def _surprise(self, what: str) -> None:
        self._client.history.add(Anomaly(client=self._name, began=self._client.now(), what=what))
