"""Snapshots of the metadata: taken, kept, read again, and brought to nodes that are too far behind."""

import pytest

from ottla.errors import CorruptLogError
from ottla.metadata.snapshot import records_of
from ottla.metadata.state import MetadataState
from ottla.protocol.messages.metadata_records import TopicRecord
from ottla.raft.entry import EntryId, Snapshot
from ottla.raft.voters import Voter, VoterSet
from ottla.runtime.metadata_snapshot import (
    SnapshotId,
    find_snapshots,
    read_description,
    read_state,
    snapshot_batches,
)
from ottla.runtime.quorum_state import DIRECTORY
from ottla.testing.disk import CrashingDisk
from tests.runtime.quorum_rig import Cluster, Member, run, topic_id, until

SMALL = 2_000
"""Bytes of the log between snapshots: about twenty topics."""
VOTERS = VoterSet((Voter(1, bytes(range(16))), Voter(2), Voter(3)))


def put(disk: CrashingDisk, snapshot_id: SnapshotId, data: bytes) -> None:
    disk.make_directory(DIRECTORY)
    file = disk.open(snapshot_id.path, create=True)
    file.pwritev([data], 0)
    file.close()


def a_snapshot() -> tuple[SnapshotId, Snapshot, bytes]:
    state = MetadataState()
    for n in range(2_500):
        state.replay(TopicRecord(name=f"t{n}", topic_id=topic_id(f"t{n}")))
    snapshot = Snapshot(last=EntryId(index=40, term=6), voters=VOTERS)
    return SnapshotId(2_540, 6), snapshot, b"".join(snapshot_batches(snapshot, records_of(state.image)))


def test_a_snapshot_is_read_as_it_was_written() -> None:
    disk = CrashingDisk()
    snapshot_id, snapshot, data = a_snapshot()
    put(disk, snapshot_id, data)
    assert find_snapshots(disk) == [snapshot_id]
    assert read_description(disk, snapshot_id).snapshot == snapshot
    state = MetadataState()
    for record in read_state(disk, snapshot_id):
        state.replay(record)
    assert set(state.image.topics) == {f"t{n}" for n in range(2_500)}


@pytest.mark.parametrize("cut", [1, 60, 5_000])
def test_a_snapshot_that_is_cut_short_is_no_snapshot(cut: int) -> None:
    disk = CrashingDisk()
    snapshot_id, _, data = a_snapshot()
    put(disk, snapshot_id, data[:-cut])
    with pytest.raises(CorruptLogError, match="not a whole snapshot"):
        read_description(disk, snapshot_id)


def test_a_snapshot_with_a_flipped_bit_is_no_snapshot() -> None:
    disk = CrashingDisk()
    snapshot_id, _, data = a_snapshot()
    put(disk, snapshot_id, data)
    disk.flip_bit(snapshot_id.path, 8 * 40_000)
    with pytest.raises(CorruptLogError, match="not a whole snapshot"):
        read_description(disk, snapshot_id)


async def create_many(cluster: Cluster, prefix: str, count: int) -> list[str]:
    names = [f"{prefix}{n}" for n in range(count)]
    for name in names:
        await cluster.create(name)
    return names


def newest(member: Member) -> int:
    return member.quorum.store.newest.snapshot_id.end_offset


def test_the_log_forgets_what_snapshots_hold_and_everything_comes_back() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.found(1)
        names = await create_many(cluster, "t", 120)
        (member,) = cluster.running
        await until(lambda: newest(member) > 60)
        await until(lambda: member.quorum.store.log.base.index > 0)
        assert member.quorum.store.log.log.start_offset > 0
        await until(lambda: len(find_snapshots(member.disk)) == 2)
        await member.kill()
        await member.restart()
        await cluster.all_have(names)
        more = await create_many(cluster, "u", 5)
        await member.stop()
        await member.restart()
        await cluster.all_have([*names, *more])

    run(scenario, snapshot_bytes=SMALL)


def test_a_node_that_is_too_far_behind_gets_a_snapshot() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.found(1, 2, 3)
        early = await create_many(cluster, "early", 3)
        await cluster.all_have(early)
        controller = await cluster.controller()
        (away, _) = (member for member in cluster.running if member is not controller)
        await away.kill()
        names = await create_many(cluster, "t", 150)
        await until(lambda: all(member.quorum.store.log.base.index > 20 for member in cluster.running))
        changed: list[set[str]] = []
        await away.restart()
        away.metadata.listen(lambda changes: changed.append(set(changes.topics_created)))
        await cluster.all_have([*early, *names])
        assert newest(away) > 20
        await cluster.create("next")
        await cluster.all_have(["next"])
        await away.kill()
        await away.restart()
        await cluster.all_have([*early, *names])
        await cluster.create("last")
        await cluster.all_have(["last"])

    run(scenario, snapshot_bytes=SMALL)


def test_a_new_observer_gets_a_snapshot_and_then_the_log() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.found(1)
        names = await create_many(cluster, "t", 150)
        (member,) = cluster.running
        await until(lambda: member.quorum.store.log.base.index > 20)
        observer = await cluster.join(2)
        await cluster.all_have(names)
        assert newest(observer) > 0
        await cluster.create("after")
        await cluster.all_have(["after"])

    run(scenario, snapshot_bytes=SMALL)
