"""Copies of partitions on several nodes, over real sockets."""

from ottla.errors import ErrorCode
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.fetch import EpochEndOffset, FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.records import Record, build_batch, iter_batches, read_records
from ottla.testing.disk import Fault, Operation
from tests.cluster_rig import ClusterRig, with_cluster
from tests.node_rig import BY_NAME, NodeRig, values_of

LATEST = -1


def log_values(rig: NodeRig, topic: str, index: int = 0) -> list[bytes | None]:
    log = rig.node.partitions.log_of(topic, index)
    data = log.read(log.start_offset, 1 << 24, upto_offset=log.end_offset, min_one_batch=True)
    return [record.value for batch in iter_batches(data) for record in read_records(batch.data)]


async def latest(rig: NodeRig, topic: str, index: int = 0) -> int:
    asked = ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=index, timestamp=LATEST)])
    answer = await rig.ask(ListOffsetsRequest(replica_id=-1, topics=[asked]))
    offset: int = answer.topics[0].partitions[0].offset
    return offset


async def where_it_parts(rig: NodeRig, *, offset: int, last_epoch: int) -> EpochEndOffset:
    wanted = FetchPartition(fetch_offset=offset, last_fetched_epoch=last_epoch, partition_max_bytes=1 << 20)
    request = FetchRequest(session_epoch=-1, topics=[FetchTopic(topic="t", partitions=[wanted])])
    answer: FetchResponse = await rig.ask(request, BY_NAME)
    return answer.responses[0].partitions[0].diverging_epoch


def test_what_was_acknowledged_is_on_all_nodes_and_survives_the_leader() -> None:
    async def scenario(cluster: ClusterRig) -> None:
        await cluster.create("t", min_insync_replicas="2")
        sent = [b"%d" % number for number in range(50)]
        for value in sent:
            assert (await cluster.leader("t").produce("t", value)).error_code == ErrorCode.NONE
        assert [log_values(rig, "t") for rig in cluster.nodes.values()] == [sent] * 3

        dead = cluster.partition("t").leader
        await cluster.kill(dead)
        await cluster.until(lambda: cluster.partition("t").leader not in (dead, -1))
        answer = await cluster.produce("t", b"after")
        assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 50)
        diverging = await where_it_parts(cluster.leader("t"), offset=51, last_epoch=0)
        assert (diverging.epoch, diverging.end_offset) == (0, 50), "a reader that had read what is no more is told so"

        await cluster.start_node(dead)
        await cluster.until(lambda: dead in cluster.partition("t").isr)
        assert log_values(cluster.nodes[dead], "t") == [*sent, b"after"]

    with_cluster(scenario)


def test_changes_of_leaders_and_of_replicas_in_sync_are_counted_where_they_are_led() -> None:
    async def scenario(cluster: ClusterRig) -> None:
        await cluster.create("t")
        dead = cluster.partition("t").leader
        await cluster.kill(dead)
        await cluster.until(lambda: cluster.partition("t").leader not in (dead, -1))
        counts = cluster.leader("t").node.partitions
        await cluster.until(lambda: (counts.leader_changes, counts.isr_shrinks) == (1, 1))
        assert counts.isr_expands == 0

        await cluster.start_node(dead)
        await cluster.until(lambda: counts.isr_expands == 1)

    with_cluster(scenario)


def test_under_the_minimum_in_sync_acks_all_is_refused() -> None:
    async def scenario(cluster: ClusterRig) -> None:
        await cluster.create("t", min_insync_replicas="3")
        assert (await cluster.leader("t").produce("t", b"a")).error_code == ErrorCode.NONE
        dead = next(node_id for node_id in cluster.nodes if node_id != cluster.partition("t").leader)
        await cluster.kill(dead)
        await cluster.until(lambda: len(cluster.leader("t").node.partitions.get("t", 0).isr) == 2)
        assert (await cluster.leader("t").produce("t", b"b")).error_code == ErrorCode.NOT_ENOUGH_REPLICAS

    with_cluster(scenario)


def test_a_node_that_does_not_lead_says_who_does() -> None:
    async def scenario(cluster: ClusterRig) -> None:
        await cluster.create("t")
        leader = cluster.partition("t").leader
        other = next(rig for node_id, rig in cluster.nodes.items() if node_id != leader)
        answer = await other.produce("t", b"a")
        assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (leader, 0)
        assert await latest(other, "t") == -1

    with_cluster(scenario)


def test_the_metadata_names_leaders_replicas_and_those_that_are_away() -> None:
    async def scenario(cluster: ClusterRig) -> None:
        await cluster.create("t")
        dead = next(node_id for node_id in cluster.nodes if node_id != cluster.partition("t").leader)
        await cluster.kill(dead)
        await cluster.until(lambda: dead not in cluster.partition("t").isr)
        await cluster.until(lambda: dead not in cluster.leader("t").node.image.alive_brokers)
        asked = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
        told = (await cluster.leader("t").ask(asked)).topics[0].partitions[0]
        assert told.error_code == ErrorCode.NONE
        assert told.leader_id == cluster.partition("t").leader
        assert sorted(told.replica_nodes) == [1, 2, 3]
        assert dead not in told.isr_nodes
        assert told.offline_replicas == [dead]

    with_cluster(scenario)


def test_a_reader_in_the_rack_of_a_follower_is_sent_there() -> None:
    async def scenario(cluster: ClusterRig) -> None:
        await cluster.create("t")
        leader_id = cluster.partition("t").leader
        await cluster.leader("t").produce("t", b"a")
        reader = next(node_id for node_id in cluster.nodes if node_id != leader_id)
        answer = await cluster.leader("t").fetch("t", rack_id=f"rack-{reader}")
        assert answer.responses[0].partitions[0].preferred_read_replica == reader
        follower = cluster.nodes[reader]
        await cluster.until(lambda: follower.node.partitions.readable("t", 0).high_watermark == 1)
        assert values_of(await follower.fetch("t", rack_id=f"rack-{reader}")) == [b"a"]
        own = await cluster.leader("t").fetch("t", rack_id=f"rack-{leader_id}")
        assert own.responses[0].partitions[0].preferred_read_replica == -1

    with_cluster(scenario)


def test_a_reader_that_waits_on_a_follower_hears_of_new_records() -> None:
    async def scenario(cluster: ClusterRig) -> None:
        await cluster.create("t")
        leader_id = cluster.partition("t").leader
        follower = next(rig for node_id, rig in cluster.nodes.items() if node_id != leader_id)
        waiting = follower.fetch("t", wait_ms=20_000, min_bytes=1)
        await cluster.leader("t").produce("t", b"a")
        assert values_of(await waiting) == [b"a"]

    with_cluster(scenario)


def test_a_deleted_topic_is_gone_from_all_nodes() -> None:
    async def scenario(cluster: ClusterRig) -> None:
        await cluster.create("t")
        await cluster.leader("t").produce("t", b"a")
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=10_000)
        await cluster.any_node.ask(request)
        await cluster.until(lambda: not any(rig.disk.exists("t-0") for rig in cluster.nodes.values()))
        await cluster.create("t")
        assert (await cluster.produce("t", b"b")).base_offset == 0

    with_cluster(scenario)


async def reassign(cluster: ClusterRig, topic: str, replicas: list[int]) -> None:
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=10_000,
        topics=[
            ReassignableTopic(name=topic, partitions=[ReassignablePartition(partition_index=0, replicas=replicas)])
        ],
    )
    answer = await cluster.any_node.ask(request)
    assert answer.error_code == ErrorCode.NONE, answer
    assert answer.responses[0].partitions[0].error_code == ErrorCode.NONE, answer


def test_a_partition_moves_to_other_nodes_with_all_it_has() -> None:
    async def scenario(cluster: ClusterRig) -> None:
        await cluster.create("t", replication_factor=1)
        first = cluster.partition("t").leader
        sent = [b"%d" % number for number in range(20)]
        for value in sent:
            await cluster.leader("t").produce("t", value)
        others = sorted(node_id for node_id in cluster.nodes if node_id != first)

        await reassign(cluster, "t", others)
        await cluster.until(lambda: sorted(cluster.partition("t").replicas) == others)
        await cluster.until(lambda: cluster.partition("t").leader in others)
        answer = await cluster.produce("t", b"moved")
        assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 20)
        assert [log_values(cluster.nodes[node_id], "t") for node_id in others] == [[*sent, b"moved"]] * 2
        await cluster.until(lambda: not cluster.nodes[first].disk.exists("t-0"))

    with_cluster(scenario)


def test_an_answer_comes_late_rather_than_never() -> None:
    """A follower that stands still is waited for as long as the client wants to."""

    async def scenario(cluster: ClusterRig) -> None:
        await cluster.create("t")
        leader = cluster.partition("t").leader
        follower = next(rig for node_id, rig in cluster.nodes.items() if node_id != leader)
        follower.node._replication.close()
        data = PartitionProduceData(index=0, records=one_record())
        request = ProduceRequest(
            acks=-1, timeout_ms=200, topic_data=[TopicProduceData(name="t", partition_data=[data])]
        )
        answer = (await cluster.leader("t").ask(request, BY_NAME)).responses[0].partition_responses[0]
        assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
        assert await latest(cluster.leader("t"), "t") == 0
        read = await cluster.leader("t").fetch("t")
        assert read.responses[0].partitions[0].high_watermark == 0

    with_cluster(scenario)


def one_record() -> bytes:
    return build_batch([Record(key=None, value=b"x", headers=(), timestamp_ms=1, offset=-1)])


def test_a_node_that_comes_back_deletes_what_was_deleted_meanwhile() -> None:
    async def scenario(cluster: ClusterRig) -> None:
        await cluster.create("t")
        await cluster.create("stays")
        for topic in ("t", "stays"):
            await cluster.leader(topic).produce(topic, b"a")
        away = next(node_id for node_id in cluster.nodes if node_id != cluster.partition("t").leader)
        await cluster.kill(away)
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=10_000)
        await cluster.any_node.ask(request)
        rig = await cluster.start_node(away)
        await cluster.until(lambda: not rig.disk.exists("t-0"))
        assert rig.disk.exists("stays-0")

    with_cluster(scenario)


def test_a_leader_whose_disk_fails_hands_over() -> None:
    async def scenario(cluster: ClusterRig) -> None:
        await cluster.create("t", min_insync_replicas="2")
        assert (await cluster.produce("t", b"a")).error_code == ErrorCode.NONE
        broken = cluster.partition("t").leader
        cluster.nodes[broken].disk.faults.append(Fault(operation=Operation.SYNC))
        assert (await cluster.leader("t").produce("t", b"b")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        await cluster.until(lambda: cluster.partition("t").leader not in (broken, -1))
        assert (await cluster.produce("t", b"c")).error_code == ErrorCode.NONE
        assert log_values(cluster.leader("t"), "t")[-1] == b"c"

    with_cluster(scenario)


def test_deleted_records_are_deleted_on_all_nodes() -> None:
    async def scenario(cluster: ClusterRig) -> None:
        await cluster.create("t")
        for value in (b"a", b"b", b"c"):
            await cluster.produce("t", value)
        asked = DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=2)])
        answer = await cluster.leader("t").ask(DeleteRecordsRequest(topics=[asked], timeout_ms=10_000))
        assert answer.topics[0].partitions[0].low_watermark == 2
        await cluster.until(
            lambda: [rig.node.partitions.log_of("t", 0).start_offset for rig in cluster.nodes.values()] == [2] * 3
        )

    with_cluster(scenario)


def test_a_new_replica_begins_where_its_leader_does() -> None:
    async def scenario(cluster: ClusterRig) -> None:
        await cluster.create("t", replication_factor=1)
        first = cluster.partition("t").leader
        await cluster.produce("t", b"a")
        await cluster.produce("t", b"b", b"c", b"d")
        await cluster.produce("t", b"e")
        asked = DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=2)])
        await cluster.leader("t").ask(DeleteRecordsRequest(topics=[asked], timeout_ms=10_000))
        others = sorted(node_id for node_id in cluster.nodes if node_id != first)
        await reassign(cluster, "t", others)
        await cluster.until(lambda: sorted(cluster.partition("t").replicas) == others)
        assert (await cluster.produce("t", b"f")).base_offset == 5
        assert await cluster.leader("t").values("t", 2) == [b"c", b"d", b"e", b"f"]
        assert cluster.leader("t").node.partitions.log_of("t", 0).start_offset == 2

    with_cluster(scenario)
