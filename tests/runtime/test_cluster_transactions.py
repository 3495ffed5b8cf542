"""Transactions and groups on several nodes, over real sockets: coordinators and leaders come and go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ottla.config import GroupConfig, TransactionConfig
from ottla.errors import BrokerError, ErrorCode
from ottla.groups.routing import partition_for_group
from ottla.metadata.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.protocol.records import Record, build_batch
from ottla.protocol.schema import Request
from ottla.runtime.marker_sending import MarkerSender
from ottla.transactions.markers import Marker
from ottla.transactions.transaction import Producer
from ottla.types import TopicPartition
from tests.cluster_rig import ClusterRig, with_cluster
from tests.node_rig import NodeRig
from tests.transactions.client import committed, fetch_committed

SETTINGS: dict[str, Any] = {
    "groups": GroupConfig(offsets_topic_num_partitions=4, group_initial_rebalance_delay_ms=0),
    "transactions": TransactionConfig(transaction_state_log_num_partitions=4),
}
AGAIN = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
TIMEOUT_S = 5


class Client:
    """A transactional producer of version 2 that finds its way as clients do: by asking again."""

    def __init__(self, cluster: ClusterRig, transactional_id: str = "x") -> None:
        self.cluster = cluster
        self.transactional_id = transactional_id
        self.producer = Producer(-1, -1)
        self.sequences: dict[int, int] = {}

    def coordinator_id(self) -> int:
        index = partition_for_group(self.transactional_id, 4)
        return self.cluster.partition(TRANSACTION_STATE, index).leader

    async def find(self) -> None:
        request = FindCoordinatorRequest(key_type=1, coordinator_keys=[self.transactional_id])
        await again(lambda: self.cluster.any_node.ask(request), lambda answer: answer.coordinators[0].error_code)
        await self.cluster.until(lambda: self.coordinator_id() in self.cluster.nodes)

    async def _coordinate(self, request: Request) -> Any:
        async def ask() -> Any:
            coordinator = self.cluster.nodes.get(self.coordinator_id())
            return None if coordinator is None else await coordinator.ask(request)

        return await again(ask, lambda answer: answer.error_code)

    async def init(self) -> None:
        await self.find()
        answer = await self._coordinate(
            InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=30_000)
        )
        assert answer.error_code == 0, ErrorCode(answer.error_code)
        self.producer = Producer(answer.producer_id, answer.producer_epoch)
        self.sequences = {}

    async def send(self, value: bytes, partitions: Sequence[int], topic: str = "t") -> None:
        for index in partitions:
            code = await self._send(topic, index, value)
            assert code == 0, ErrorCode(code)

    async def _send(self, topic: str, index: int, value: bytes) -> int:
        sequence = self.sequences.get(index, 0)
        batch = build_batch(
            [Record(key=None, value=value, headers=(), timestamp_ms=self.cluster.any_node.node.clock.now_ms())],
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        request = ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=TIMEOUT_S * 1_000,
            topic_data=[
                TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=index, records=batch)])
            ],
        )

        async def ask() -> Any:
            leader = self.cluster.nodes.get(self.cluster.partition(topic, index).leader)
            return None if leader is None else await leader.ask(request, 12)

        answer = await again(ask, lambda answer: answer.responses[0].partition_responses[0].error_code)
        self.sequences[index] = sequence + 1
        code: int = answer.responses[0].partition_responses[0].error_code
        return code

    async def end(self, commits: bool) -> int:
        answer = await self._coordinate(
            EndTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=self.producer.producer_id,
                producer_epoch=self.producer.epoch,
                committed=commits,
            )
        )
        if not answer.error_code:
            self.producer = Producer(answer.producer_id, answer.producer_epoch)
            self.sequences = {}
        code: int = answer.error_code
        return code


async def again(ask: Any, code_of: Any) -> Any:
    """Until there is an answer that asking again would not change."""
    while True:
        try:
            async with asyncio.timeout(TIMEOUT_S):
                answer = await ask()
        except (TimeoutError, BrokerError):
            answer = None
        if answer is not None and code_of(answer) not in AGAIN:
            return answer
        await asyncio.sleep(0.02)  # real sockets, real time: as a client's back-off


async def settled(cluster: ClusterRig, partitions: int, topic: str = "t") -> list[list[bytes | None]]:
    """What readers of committed records find in each partition, once no transaction is open in it."""
    found = []
    for index in range(partitions):
        while True:
            leader = cluster.nodes.get(cluster.partition(topic, index).leader)
            if leader is not None:
                try:
                    data = await fetch_committed(leader, topic, index)
                    if (
                        data.last_stable_offset
                        == data.high_watermark
                        == leader.node.partitions.log_of(topic, index).end_offset
                    ):
                        found.append(await committed(leader, topic, index))
                        break
                except AssertionError:
                    pass
            await asyncio.sleep(0.02)
    return found


def test_a_transaction_spans_partitions_of_several_leaders() -> None:
    async def scenario(cluster: ClusterRig) -> None:
        await cluster.create("t", 6)
        client = Client(cluster)
        await client.init()
        for number in range(10):
            await client.send(b"%d" % number, range(6))
            assert await client.end(commits=number % 2 == 0) == 0
        expected = [b"%d" % number for number in range(0, 10, 2)]
        assert await settled(cluster, 6) == [expected] * 6
        assert len({cluster.partition("t", index).leader for index in range(6)}) > 1

    with_cluster(scenario, **SETTINGS)


def test_a_coordinator_that_dies_after_its_decision_leaves_the_markers_to_the_next() -> None:
    async def scenario(cluster: ClusterRig) -> None:
        await cluster.create("t", 6)
        client = Client(cluster)
        await client.init()
        await client.send(b"a", range(6))
        dead = client.coordinator_id()
        lazy = cluster.nodes[dead].node.transactions
        lazy._send = lambda *_: None  # type: ignore[method-assign]  # it decides, and dies before it does anything
        assert await client.end(commits=True) == 0
        assert any(
            rig.node.partitions.get("t", index).last_stable_offset == 0
            for index in range(6)
            for rig in [cluster.leader("t", index)]
        )
        await cluster.kill(dead)
        await cluster.until(lambda: client.coordinator_id() not in (dead, -1))
        assert await settled(cluster, 6) == [[b"a"]] * 6
        await client.send(b"b", range(6))
        assert await client.end(commits=True) == 0
        assert await settled(cluster, 6) == [[b"a", b"b"]] * 6

    with_cluster(scenario, **SETTINGS)


def only_some_markers(sender: MarkerSender) -> None:
    """It gets half of them written, and waits for ever."""
    send = sender.send

    def send_half(transactional_id: str, marker: Marker, partitions: set[TopicPartition], **how: Any) -> None:
        half = set(sorted(partitions)[: len(partitions) // 2])
        send(transactional_id, marker, half, **{**how, "on_done": lambda: None})

    sender.send = send_half  # type: ignore[method-assign]


def all_markers_and_no_end(sender: MarkerSender) -> None:
    """It gets them written, and does not say that the transaction is complete."""
    send = sender.send

    def send_silently(*what: Any, **how: Any) -> None:
        send(*what, **{**how, "on_done": lambda: None})

    sender.send = send_silently  # type: ignore[method-assign]


@pytest.mark.parametrize("step", ["started", "written", "offsets", only_some_markers, all_markers_and_no_end])
def test_a_coordinator_may_die_at_any_step(step: str | Callable[[MarkerSender], None]) -> None:
    async def scenario(cluster: ClusterRig) -> None:
        await cluster.create("t", 6)
        await find_group(cluster, "g")
        client = Client(cluster)
        await client.init()
        dead = client.coordinator_id()

        async def die_at(now: str) -> None:
            if step == now:
                await cluster.kill(dead)
                await cluster.until(lambda: client.coordinator_id() not in (dead, -1))

        await die_at("started")
        await client.send(b"a", range(3))
        await die_at("written")
        await client.send(b"a", range(3, 6))
        assert await commit_offset(cluster, client, "g", 7) == 0
        await die_at("offsets")
        if callable(step):
            step(cluster.nodes[dead].node.transactions._sender)
        assert await client.end(commits=True) == 0
        if callable(step):
            led = [rig.node.partitions.get("t", index) for index in range(6) for rig in [cluster.leader("t", index)]]
            wanted = 6 if step is all_markers_and_no_end else 2  # the offsets' marker is the third
            await cluster.until(lambda: sum(partition.last_stable_offset == 2 for partition in led) >= wanted)
            await cluster.kill(dead)
            await cluster.until(lambda: client.coordinator_id() not in (dead, -1))
        assert await settled(cluster, 6) == [[b"a"]] * 6
        await client.send(b"b", range(6))
        assert await client.end(commits=False) == 0
        assert await settled(cluster, 6) == [[b"a"]] * 6
        assert await stable_offset(cluster, "g") == 7

    with_cluster(scenario, **SETTINGS)


async def find_group(cluster: ClusterRig, group_id: str) -> None:
    find = FindCoordinatorRequest(key_type=0, coordinator_keys=[group_id])
    await again(lambda: cluster.any_node.ask(find), lambda answer: answer.coordinators[0].error_code)


async def commit_offset(cluster: ClusterRig, client: Client, group_id: str, offset: int) -> int:
    at = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    request = TxnOffsetCommitRequest(
        transactional_id=client.transactional_id,
        group_id=group_id,
        producer_id=client.producer.producer_id,
        producer_epoch=client.producer.epoch,
        topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[at])],
    )
    return first_code(await group_call(cluster, group_id, request, first_code))


async def stable_offset(cluster: ClusterRig, group_id: str) -> int:
    """Once no transaction can change it."""
    wanted = OffsetFetchRequestGroup(
        group_id=group_id, topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    )
    request = OffsetFetchRequest(groups=[wanted], require_stable=True)

    def code_of(answer: Any) -> int:
        group = answer.groups[0]
        code = group.error_code or group.topics[0].partitions[0].error_code
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if code == ErrorCode.UNSTABLE_OFFSET_COMMIT else code

    answer = await group_call(cluster, group_id, request, code_of, version=8)
    offset: int = answer.groups[0].topics[0].partitions[0].committed_offset
    return offset


def test_a_leader_that_dies_with_a_transaction_open_is_no_obstacle() -> None:
    async def scenario(cluster: ClusterRig) -> None:
        await cluster.create("t", 6)
        client = Client(cluster)
        await client.init()
        await client.send(b"a", range(6))
        coordinator = client.coordinator_id()
        dead = next(leader for index in range(6) if (leader := cluster.partition("t", index).leader) != coordinator)
        await cluster.kill(dead)
        assert await client.end(commits=True) == 0
        assert await settled(cluster, 6) == [[b"a"]] * 6
        await cluster.start_node(dead)
        await client.send(b"b", range(6))
        assert await client.end(commits=False) == 0
        assert await settled(cluster, 6) == [[b"a"]] * 6

    with_cluster(scenario, **SETTINGS)


def test_a_zombie_is_fenced_on_every_node() -> None:
    async def scenario(cluster: ClusterRig) -> None:
        await cluster.create("t", 6)
        zombie, heir = Client(cluster), Client(cluster)
        await zombie.init()
        await zombie.send(b"zombie", range(3))
        await heir.init()
        for index in range(6):
            assert await zombie._send("t", index, b"late") == ErrorCode.INVALID_PRODUCER_EPOCH
        assert await zombie.end(commits=True) == ErrorCode.PRODUCER_FENCED
        await heir.send(b"heir", range(6))
        assert await heir.end(commits=True) == 0
        assert await settled(cluster, 6) == [[b"heir"]] * 6

    with_cluster(scenario, **SETTINGS)


@pytest.mark.parametrize("seed", [1, 2])
def test_transactions_are_whole_while_nodes_die_and_come_back(seed: int) -> None:
    async def scenario(cluster: ClusterRig) -> None:
        await cluster.create("t", 4, min_insync_replicas="2")
        client = Client(cluster)
        await client.init()
        done: dict[bytes, bool] = {}
        order = [1, 2, 3] if seed == 1 else [3, 1, 2]
        for number in range(9):
            value, commits = b"%d" % number, number % 3 != 2
            await client.send(value, (0, 1))
            if number % 3 == 1:
                victim = order[number // 3]
                await cluster.kill(victim)
            await client.send(value, (2, 3))
            assert await client.end(commits) == 0
            done[value] = commits
            if number % 3 == 1:
                await cluster.start_node(victim)
                await cluster.until(lambda: all(len(cluster.partition("t", index).isr) == 3 for index in range(4)))
        expected = [value for value, commits in done.items() if commits]
        assert await settled(cluster, 4) == [expected] * 4

    with_cluster(scenario, **SETTINGS)


# Groups


async def group_call(cluster: ClusterRig, group_id: str, request: Request, code_of: Any, **more: Any) -> Any:
    index = partition_for_group(group_id, 4)

    async def ask() -> Any:
        coordinator = cluster.nodes.get(cluster.partition(CONSUMER_OFFSETS, index).leader)
        return None if coordinator is None else await coordinator.ask(request, **more)

    return await again(ask, code_of)


def first_code(answer: Any) -> int:
    """Of an answer that has an error for each partition."""
    code: int = answer.topics[0].partitions[0].error_code
    return code


def test_a_group_keeps_members_generation_and_offsets_over_a_failover() -> None:
    async def scenario(cluster: ClusterRig) -> None:
        await cluster.create("t")
        find = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
        await again(lambda: cluster.any_node.ask(find), lambda answer: answer.coordinators[0].error_code)
        index = partition_for_group("g", 4)
        await cluster.until(lambda: cluster.partition(CONSUMER_OFFSETS, index).leader in cluster.nodes)
        protocol = JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff")
        join = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            protocol_type="consumer",
            protocols=[protocol],
        )
        joined = await group_call(cluster, "g", join, lambda answer: answer.error_code, version=3)
        assert joined.error_code == 0
        sync = SyncGroupRequest(
            group_id="g",
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=[SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"mine")],
        )
        synced = await group_call(cluster, "g", sync, lambda answer: answer.error_code, version=3)
        assert synced.assignment == b"mine"
        commit = OffsetCommitRequest(
            group_id="g",
            generation_id_or_member_epoch=joined.generation_id,
            member_id=joined.member_id,
            topics=[
                OffsetCommitRequestTopic(
                    name="t", partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=7)]
                )
            ],
        )
        assert first_code(await group_call(cluster, "g", commit, first_code)) == 0
        dead = cluster.partition(CONSUMER_OFFSETS, index).leader
        await cluster.kill(dead)
        await cluster.until(lambda: cluster.partition(CONSUMER_OFFSETS, index).leader not in (dead, -1))

        beat = HeartbeatRequest(group_id="g", generation_id=joined.generation_id, member_id=joined.member_id)
        assert (await group_call(cluster, "g", beat, lambda answer: answer.error_code)).error_code == 0
        assert await group_offset(cluster, "g") == 7

    with_cluster(scenario, **SETTINGS)


async def group_offset(cluster: ClusterRig, group_id: str) -> int:
    wanted = OffsetFetchRequestGroup(
        group_id=group_id, topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    )
    request = OffsetFetchRequest(groups=[wanted], require_stable=True)

    def code_of(answer: Any) -> int:
        group = answer.groups[0]
        code: int = group.error_code or group.topics[0].partitions[0].error_code
        return ErrorCode.COORDINATOR_NOT_AVAILABLE if code == ErrorCode.UNSTABLE_OFFSET_COMMIT else code

    answer = await group_call(cluster, group_id, request, code_of, version=8)
    offset: int = answer.groups[0].topics[0].partitions[0].committed_offset
    return offset


@pytest.mark.parametrize("commits", [True, False])
def test_offsets_of_a_transaction_count_with_it_over_a_failover_of_the_group(commits: bool) -> None:
    async def scenario(cluster: ClusterRig) -> None:
        await cluster.create("t")
        find = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
        await again(lambda: cluster.any_node.ask(find), lambda answer: answer.coordinators[0].error_code)
        client = Client(cluster)
        await client.init()
        at = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=7)
        request = TxnOffsetCommitRequest(
            transactional_id="x",
            group_id="g",
            producer_id=client.producer.producer_id,
            producer_epoch=client.producer.epoch,
            topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[at])],
        )
        assert first_code(await group_call(cluster, "g", request, first_code)) == 0
        index = partition_for_group("g", 4)
        dead = cluster.partition(CONSUMER_OFFSETS, index).leader
        await cluster.kill(dead)
        await cluster.until(lambda: cluster.partition(CONSUMER_OFFSETS, index).leader not in (dead, -1))
        assert await client.end(commits) == 0
        assert await group_offset(cluster, "g") == (7 if commits else -1)

    with_cluster(scenario, **SETTINGS)


def test_a_node_that_is_not_the_coordinator_says_so() -> None:
    async def scenario(cluster: ClusterRig) -> None:
        client = Client(cluster)
        await client.init()
        other: NodeRig = next(rig for node_id, rig in cluster.nodes.items() if node_id != client.coordinator_id())
        request = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=30_000)
        assert (await other.ask(request)).error_code == ErrorCode.NOT_COORDINATOR

    with_cluster(scenario, **SETTINGS)
