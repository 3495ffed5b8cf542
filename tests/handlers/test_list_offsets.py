import pytest

from ottla.errors import ErrorCode
from ottla.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.protocol.records import Record, build_batch
from tests.node_rig import NodeRig, with_node


async def stamp(rig: NodeRig, *timestamps: int) -> None:
    """One batch whose records have these times, counted from an hour ago."""
    hour_ago = rig.node.clock.now_ms() - 3_600_000
    records = [Record(key=None, value=b"", headers=(), timestamp_ms=hour_ago + t, offset=-1) for t in timestamps]
    await rig.produce_bytes("t", build_batch(records))


async def find(rig: NodeRig, timestamp: int, partition: int = 0) -> tuple[int, int, int]:
    wanted = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
    answer = await rig.ask(ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=[wanted])]))
    found = answer.topics[0].partitions[0]
    return found.error_code, found.offset, found.timestamp


async def delete(rig: NodeRig, offset: int) -> tuple[int, int]:
    wanted = DeleteRecordsPartition(partition_index=0, offset=offset)
    answer = await rig.ask(DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=[wanted])]))
    result = answer.topics[0].partitions[0]
    return result.error_code, result.low_watermark


def test_earliest_and_latest_are_the_ends_of_the_log() -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t")
        assert await find(rig, -1) == (0, 0, -1)
        await rig.produce("t", b"a", b"b", b"c")
        assert await find(rig, -1) == (0, 3, -1)
        assert await find(rig, -2) == (0, 0, -1)
        assert await find(rig, -4) == (0, 0, -1)
        await delete(rig, 2)
        assert await find(rig, -2) == (0, 2, -1)

    with_node(scenario)


def test_a_time_leads_to_the_first_record_that_is_not_older() -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t")
        hour_ago = rig.node.clock.now_ms() - 3_600_000
        base = [Record(key=None, value=b"", headers=(), timestamp_ms=hour_ago + t, offset=-1) for t in (10, 20, 30)]
        await rig.produce_bytes("t", build_batch(base))
        assert await find(rig, hour_ago) == (0, 0, hour_ago + 10)
        assert await find(rig, hour_ago + 11) == (0, 1, hour_ago + 20)
        assert await find(rig, hour_ago + 30) == (0, 2, hour_ago + 30)
        assert await find(rig, hour_ago + 31) == (0, -1, -1)

    with_node(scenario)


def test_the_newest_timestamp_need_not_be_the_last_record() -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t")
        assert await find(rig, -3) == (0, -1, -1)
        await stamp(rig, 10, 99, 30)
        code, offset, _ = await find(rig, -3)
        assert (code, offset) == (0, 1)

    with_node(scenario)


def test_what_does_not_exist_is_told() -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t")
        assert (await find(rig, -1, partition=7))[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert (await find(rig, -5))[1] == -1
        assert (await find(rig, -77))[0] == ErrorCode.INVALID_REQUEST

    with_node(scenario)


def test_deleted_records_are_gone_for_readers_and_stay_gone() -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t")
        await rig.produce("t", b"a", b"b")
        await rig.produce("t", b"c")
        assert await delete(rig, 1) == (0, 1)
        assert await delete(rig, 99) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
        code = (await rig.fetch("t", 0)).responses[0].partitions[0].error_code
        assert code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert await rig.values("t", 1) == [b"b", b"c"]

    async def after(rig: NodeRig) -> None:
        assert await find(rig, -2) == (0, 1, -1)
        assert await delete(rig, -1) == (0, 3)
        assert (await rig.produce("t", b"d")).base_offset == 3

    with_node(after, disk=with_node(scenario))


@pytest.mark.parametrize(("epoch", "expected"), [(0, (0, 2)), (7, (-1, -1))])
def test_the_end_of_an_epoch_is_told(epoch: int, expected: tuple[int, int]) -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t")
        await rig.produce("t", b"a", b"b")
        wanted = OffsetForLeaderPartition(partition=0, leader_epoch=epoch, current_leader_epoch=-1)
        topic = OffsetForLeaderTopic(topic="t", partitions=[wanted])
        answer = (await rig.ask(OffsetForLeaderEpochRequest(topics=[topic]))).topics[0].partitions[0]
        assert (answer.leader_epoch, answer.end_offset) == expected

    with_node(scenario)
