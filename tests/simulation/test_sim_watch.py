"""What is seen of the quorum, of logs on disk and of log lines during a simulation."""

import logging
from random import Random

from ottla.errors import StorageError
from ottla.protocol.records import Record, build_batch
from ottla.raft.node import RaftNode
from ottla.raft.settings import RaftSettings
from ottla.raft.voters import VoterSet
from ottla.testing.disk import CrashingDisk
from ottla.testing.history import History
from ottla.testing.sim_audit import read_replica
from ottla.testing.sim_log import LogIntoTrace
from ottla.testing.sim_watch import RaftWatch
from ottla.testing.sim_world import World
from tests.raft.host import MemoryDisk

LOG = logging.getLogger("ottla.somewhere")


def test_elections_and_applied_entries_are_seen() -> None:
    world, history = World(1), History()
    world.who = "node-1"
    disk = MemoryDisk(VoterSet.of([1]))
    with RaftWatch(world, history):
        node = RaftNode(node_id=1, stable=disk, hard_state=disk.hard_state, random=Random(1), settings=RaftSettings())
        node.tick()
        while (ready := node.ready()) is not None:
            if ready.entries:
                disk.write(ready.entries)
            node.advance(ready)

    assert [(election.node, election.term) for election in history.elections] == [("node-1", 1)]
    assert [applied.index for applied in history.applied] == list(range(1, len(history.applied) + 1))
    assert history.applied


def test_a_replica_is_read_from_all_its_segments() -> None:
    disk = CrashingDisk()
    disk.make_directory("t-0")
    first = build_batch([Record(value=b"a"), Record(value=b"b")], base_offset=0)
    second = build_batch([Record(value=b"c")], base_offset=2)
    for name, batch in (("00.log", first), ("02.log", second), ("02.index", b"?")):
        disk.open(f"t-0/{name}", create=True).pwritev([batch], 0)

    replica = read_replica(disk, "t-0")
    assert replica.batches == {0: first, 2: second}
    assert replica.end_offset == 3
    assert read_replica(disk, "t-1").end_offset == 0


def test_log_lines_are_a_part_of_the_story_and_not_of_the_digest() -> None:
    world = World(1)
    world.who = "node-1"
    before = world.trace.digest
    with LogIntoTrace(world):
        LOG.warning("the disk is %s", "full")

    assert "node-1     | warning: the disk is full" in world.trace.story[0]
    assert world.trace.digest == before


def test_an_error_that_nobody_expected_is_a_failure() -> None:
    world = World(1)
    with LogIntoTrace(world):
        LOG.error("refused", exc_info=StorageError("expected"))
        LOG.error("a bug", exc_info=KeyError("surprise"))

    assert len(world.failures) == 1
    assert "KeyError" in world.failures[0]
