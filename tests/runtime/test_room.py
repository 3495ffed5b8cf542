"""A disk that is full to clients has a reserve with which it can be emptied."""

import itertools
from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.runtime.room import PLENTY_BYTES, Room
from ottla.storage.journal import RESERVE_BYTES, FilePreparation, file_numbers
from ottla.testing.disk import CrashingDisk
from tests.node_rig import NodeRig, with_node, with_node_that_dies

DISK_BYTES = RESERVE_BYTES + (8 << 20)
SMALL = b"x"


class Gauge:
    """A disk of which only the room is asked for."""

    def __init__(self, free_bytes: int) -> None:
        self.free = free_bytes

    def free_bytes(self) -> int:
        return self.free


def room_of(gauge: Any) -> Room:
    return Room(gauge)


def test_it_is_full_when_less_than_the_reserve_is_left_and_no_more_once_there_is_more() -> None:
    gauge = Gauge(RESERVE_BYTES)
    room = room_of(gauge)
    assert not room.look()
    gauge.free -= 1
    assert room.look()
    assert room.is_full
    gauge.free += 1
    assert not room.look()
    assert not room.is_full


def test_there_is_plenty_once_it_was_seen() -> None:
    gauge = Gauge(PLENTY_BYTES)
    room = room_of(gauge)
    assert not room.has_plenty
    room.look()
    assert room.has_plenty
    gauge.free -= 1
    room.look()
    assert not room.has_plenty


def test_both_changes_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="ottla.runtime.room")
    gauge = Gauge(0)
    room = room_of(gauge)
    room.look()
    room.look()
    gauge.free = RESERVE_BYTES
    room.look()
    room.look()
    assert [record.levelname for record in caplog.records] == ["ERROR", "INFO"]


async def fill(rig: NodeRig, topic: str) -> int:
    """With ever smaller batches, until none is taken. How many were."""
    taken = 0
    for size in (900_000, 10_000, 10):
        while (await rig.produce(topic, SMALL * size)).error_code == ErrorCode.NONE:
            taken += 1
    return taken


async def delete(rig: NodeRig, topic: str) -> int:
    answer = await rig.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=10_000), 6)
    return int(answer.responses[0].error_code)


def test_a_full_disk_refuses_records_and_still_lets_topics_be_deleted_and_made() -> None:
    async def scenario(rig: NodeRig) -> None:
        for topic in ("kept", "large"):
            await rig.create(topic)
        await rig.produce("kept", b"one")
        assert await fill(rig, "large") > 0
        refused = await rig.produce("kept", b"no room")
        assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        for number in range(50):  # more than is left of any block or page
            assert (await rig.create(f"new-{number}")).error_code == ErrorCode.NONE
        assert await delete(rig, "large") == ErrorCode.NONE

    async def after(rig: NodeRig) -> None:
        assert "large" not in rig.node.image.topics
        assert len([topic for topic in rig.node.image.topics if topic.startswith("new-")]) == 50
        assert await rig.values("kept") == [b"one"]

    with_node(after, disk=with_node_that_dies(scenario, disk=CrashingDisk(capacity_bytes=DISK_BYTES)))


def test_an_idempotent_producer_goes_on_without_a_gap_when_there_is_room_again() -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t")
        sequences = itertools.count()
        assert (await produce(rig, next(sequences))).error_code == ErrorCode.NONE
        rig.disk.capacity_bytes = 0
        rig.node.room.look()
        refused = next(sequences)
        assert (await produce(rig, refused)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        rig.disk.capacity_bytes = None
        assert (await produce(rig, refused + 1)).error_code == ErrorCode.KAFKA_STORAGE_ERROR  # the one before is first
        assert (await produce(rig, refused)).error_code == ErrorCode.NONE
        assert (await produce(rig, refused + 1)).error_code == ErrorCode.NONE
        assert await rig.values("t") == [b"0", b"1", b"2"]

    async def produce(rig: NodeRig, sequence: int) -> Any:
        return await rig.produce("t", b"%d" % sequence, producer_id=1, producer_epoch=0, base_sequence=sequence)

    with_node(scenario)


def test_no_file_of_the_journal_is_made_in_advance_from_the_reserve() -> None:
    disk = CrashingDisk(capacity_bytes=RESERVE_BYTES + (2 << 20))
    disk.make_directory("journal")
    FilePreparation(disk, 0, 1 << 20).run()
    with pytest.raises(OSError, match="reserve"):
        FilePreparation(disk, 1, 2 << 20).run()
    assert file_numbers(disk) == [0]
    assert disk.free_bytes() >= RESERVE_BYTES
