"""What a node promises over its life: restarts, crashes, and a disk that fails."""

import asyncio
import errno
from typing import Any

import pytest

from ottla.config import Durability, GroupConfig, JournalConfig, LogConfig
from ottla.errors import ConfigError, DiskFailedError, ErrorCode
from ottla.groups.routing import partition_for_group
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
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
from ottla.protocol.records import MAGIC_AT
from ottla.testing.disk import CrashingDisk, Fault, Operation
from ottla.testing.disk_model import NOTHING_UNSYNCED
from tests.node_rig import NodeRig, with_node, with_node_that_dies


async def commit_offset(rig: NodeRig, group: str, topic: str, offset: int) -> int:
    await rig.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[group]))
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])],
    )
    answer = await rig.ask(request, 8)
    code: int = answer.topics[0].partitions[0].error_code
    return code


async def committed_offset(rig: NodeRig, group: str, topic: str) -> int:
    wanted = OffsetFetchRequestGroup(
        group_id=group, topics=[OffsetFetchRequestTopics(name=topic, partition_indexes=[0])]
    )
    while True:
        answer = (await rig.ask(OffsetFetchRequest(groups=[wanted]), 8)).groups[0]
        if answer.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            offset: int = answer.topics[0].partitions[0].committed_offset
            return offset
        await asyncio.sleep(0.001)


def test_records_topics_and_offsets_survive_a_restart() -> None:
    async def before(rig: NodeRig) -> None:
        await rig.create("t", 3)
        await rig.produce("t", b"a", b"b")
        await rig.produce("t", b"c", partition=2)
        assert await commit_offset(rig, "g", "t", 2) == ErrorCode.NONE

    async def after(rig: NodeRig) -> None:
        assert len(rig.node.image.topics["t"].partitions) == 3
        assert await rig.values("t") == [b"a", b"b"]
        assert await rig.values("t", partition=2) == [b"c"]
        assert await committed_offset(rig, "g", "t") == 2
        assert (await rig.produce("t", b"d")).base_offset == 2

    with_node(after, disk=with_node(before))


def test_what_was_acknowledged_survives_a_crash_and_keeps_its_offset() -> None:
    async def before(rig: NodeRig) -> None:
        await rig.create("t", 2)
        for n in range(50):
            assert (await rig.produce("t", b"%d" % n, partition=n % 2)).base_offset == n // 2
        assert await commit_offset(rig, "g", "t", 7) == ErrorCode.NONE

    async def after(rig: NodeRig) -> None:
        assert await rig.values("t", partition=0) == [b"%d" % n for n in range(0, 50, 2)]
        assert await rig.values("t", partition=1) == [b"%d" % n for n in range(1, 50, 2)]
        assert await committed_offset(rig, "g", "t") == 7

    with_node(after, disk=with_node_that_dies(before))


def test_a_disk_that_lies_about_syncs_is_found_out() -> None:
    """The same crash on a disk whose syncs do nothing loses records: the tests above can fail."""

    async def before(rig: NodeRig) -> None:
        await rig.create("t")
        for n in range(20):
            await rig.produce("t", b"%d" % n)

    async def after(rig: NodeRig) -> None:
        kept = await rig.values("t") if "t" in rig.node.image.topics else []
        assert kept != [b"%d" % n for n in range(20)]

    with_node(after, disk=with_node_that_dies(before, disk=CrashingDisk(sync_lies=True)))


def test_many_producers_share_one_sync() -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t", 6)
        before = rig.disk.counters.syncs
        answers = await asyncio.gather(*(rig.produce("t", b"%d" % n, partition=n % 6) for n in range(100)))
        assert all(answer.error_code == 0 for answer in answers)
        assert rig.disk.counters.syncs - before <= 2

    with_node(scenario)


def test_with_durability_os_nothing_waits_for_a_sync() -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t")
        await rig.produce("t", b"first")
        before = rig.disk.counters.syncs
        await rig.produce("t", b"second")
        assert rig.disk.counters.syncs == before

    with_node(scenario, journal=JournalConfig(durability=Durability.OS))


def test_a_sync_that_failed_is_never_acknowledged_and_nothing_is_written_after_it() -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t")
        await rig.produce("t", b"good")
        rig.disk.faults.append(Fault(operation=Operation.SYNC, path_contains="journal", times=1))
        assert (await rig.produce("t", b"lost")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert (await rig.produce("t", b"refused")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert await rig.values("t") == [b"good"]

    async def after(rig: NodeRig) -> None:
        values = await rig.values("t")
        assert values[0] == b"good"
        assert b"refused" not in values
        assert (await rig.produce("t", b"again")).error_code == ErrorCode.NONE

    with_node(after, disk=with_node_that_dies(scenario))


def test_a_node_whose_disk_failed_says_so_when_it_stops() -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t")
        rig.disk.faults.append(Fault(operation=Operation.SYNC, path_contains="journal"))
        await rig.produce("t", b"lost")

    with pytest.raises(DiskFailedError):
        with_node(scenario)


def test_a_full_disk_refuses_writes_and_takes_them_again_when_there_is_room() -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t")
        await rig.produce("t", b"one")
        full = Fault(operation=Operation.WRITE, errno=errno.ENOSPC)
        rig.disk.faults.append(full)
        assert (await rig.produce("t", b"too much")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        rig.disk.faults.remove(full)
        assert (await rig.produce("t", b"two")).base_offset == 1
        assert await rig.values("t") == [b"one", b"two"]

    async def after(rig: NodeRig) -> None:
        assert await rig.values("t") == [b"one", b"two"]

    with_node(after, disk=with_node_that_dies(scenario))


def test_a_topic_that_the_disk_had_no_room_for_does_not_exist() -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("before")
        full = Fault(operation=Operation.WRITE, errno=errno.ENOSPC)
        rig.disk.faults.append(full)
        assert (await rig.create("t")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        rig.disk.faults.remove(full)
        assert "t" not in rig.node.image.topics
        assert (await rig.create("t")).error_code == ErrorCode.NONE
        assert (await rig.produce("t", b"x")).error_code == ErrorCode.NONE
        assert (await rig.produce("before", b"y")).error_code == ErrorCode.NONE

    with_node(scenario)


def test_an_offset_that_the_disk_had_no_room_for_is_not_committed() -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t")
        assert await commit_offset(rig, "g", "t", 1) == ErrorCode.NONE
        full = Fault(operation=Operation.WRITE, errno=errno.ENOSPC)
        rig.disk.faults.append(full)
        assert await commit_offset(rig, "g", "t", 2) != ErrorCode.NONE
        rig.disk.faults.remove(full)
        assert await committed_offset(rig, "g", "t") == 1

    with_node(scenario)


def test_a_clean_stop_leaves_nothing_to_recover(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t")
        await rig.produce("t", b"x")

    async def nothing(_: NodeRig) -> None:
        pass

    disk = with_node(scenario).crash()
    caplog.clear()
    with_node(nothing, disk=disk)
    assert "recovery" not in caplog.text


def test_producer_ids_are_never_given_twice_not_even_over_a_crash() -> None:
    seen: list[int] = []

    async def take(rig: NodeRig) -> None:
        answers = await asyncio.gather(*(rig.ask(InitProducerIdRequest(transactional_id=None)) for _ in range(5)))
        seen.extend(answer.producer_id for answer in answers)

    disk = with_node_that_dies(take)
    disk = with_node(take, disk=disk)
    with_node(take, disk=disk)
    assert len(set(seen)) == 15


def test_a_directory_of_another_node_is_refused() -> None:
    async def nothing(_: NodeRig) -> None:
        pass

    disk = with_node(nothing, node_id=1)
    with pytest.raises(ConfigError, match="belongs to node 1"):
        with_node(nothing, disk=disk, node_id=2)


def test_a_deleted_topic_is_gone_with_its_records_and_a_new_one_of_that_name_is_empty() -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t")
        await rig.produce("t", b"old")
        waiting = rig.fetch("t", 1, wait_ms=20_000)
        await rig.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")]))
        code = (await waiting).responses[0].partitions[0].error_code
        assert code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await rig.create("t")
        assert await rig.values("t") == []
        assert (await rig.produce("t", b"new")).base_offset == 0

    async def after(rig: NodeRig) -> None:
        assert await rig.values("t") == [b"new"]

    with_node(after, disk=with_node_that_dies(scenario))


def test_the_cluster_keeps_its_id_and_topics_theirs() -> None:
    ids: list[object] = []

    async def note(rig: NodeRig) -> None:
        answer = await rig.ask(MetadataRequest(topics=[MetadataRequestTopic(name="t")]))
        ids.append((answer.cluster_id, answer.topics[0].topic_id))

    with_node(note, disk=with_node(note))
    assert ids[0] == ids[1]


def test_what_a_failed_sync_left_in_the_page_cache_alone_is_written_again_by_the_next_start() -> None:
    """The process is started again, the machine is not, so everything seems to be there; then the power goes."""

    async def before(rig: NodeRig) -> None:
        await rig.create("t")
        await rig.produce("t", b"acknowledged")
        rig.disk.faults.append(Fault(operation=Operation.SYNC, path_contains="t-0", times=1))

    async def after(rig: NodeRig) -> None:
        assert await rig.values("t") == [b"acknowledged"]

    disk = CrashingDisk()
    with pytest.raises(DiskFailedError):
        with_node(before, disk=disk)
    with_node(after, disk=with_node_that_dies(after, disk=disk).crash(NOTHING_UNSYNCED))


def test_damage_in_one_partition_of_offsets_leaves_the_groups_of_the_others_alone() -> None:
    hurt, whole = "g1", "g0"
    assert [partition_for_group(group, 2) for group in (hurt, whole)] == [0, 1]

    async def before(rig: NodeRig) -> None:
        await rig.create("t")
        for group in (hurt, hurt, hurt, whole):
            await commit_offset(rig, group, "t", 7)

    async def after(rig: NodeRig) -> None:
        assert await committed_offset(rig, whole, "t") == 7
        wanted = OffsetFetchRequestGroup(group_id=hurt)
        answer = await rig.ask(OffsetFetchRequest(groups=[wanted]), 8)
        assert answer.groups[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE

    settings: dict[str, Any] = {
        "groups": GroupConfig(offsets_topic_num_partitions=2),
        "log": LogConfig(index_interval_bytes=0),  # a clean start looks at the end of a log only
    }
    disk = with_node(before, **settings)
    disk.flip_bit("__consumer_offsets-0/00000000000000000000.log", MAGIC_AT * 8)
    with_node(after, disk=disk, **settings)
