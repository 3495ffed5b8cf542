"""The paper's section 7: logs that do not grow for ever."""

from __future__ import annotations

from ottla.raft.entry import EntryId, EntryKind, HardState, Snapshot
from ottla.raft.messages import AppendRejected, AppendReply, HeartbeatReply, InstallSnapshot
from ottla.raft.progress import Pace
from ottla.raft.voters import Voter, VoterSet
from tests.raft.net import SETTINGS, Net
from tests.raft.test_paper_5_elections import host_with, sent_to
from tests.raft.test_paper_5_replication import append

OFFERED = Snapshot(last=EntryId(10, 2), voters=VoterSet.of([1, 2, 4]))


def offer(snapshot: Snapshot = OFFERED, *, term: int = 2) -> InstallSnapshot:
    return InstallSnapshot(sender=2, term=term, snapshot=snapshot)


def lagging() -> Net:
    """Node 3 has slept through a compaction."""
    net = Net([1, 2, 3])
    leader = net.elect(1)
    net.crash(3)
    leader.propose(b"a", b"b", b"c")
    net.settle()
    net.take_snapshot(1)
    return net


def test_a_snapshot_holds_state_last_entry_and_voters() -> None:
    net = Net([1, 2, 3])
    net.elect(1).propose(b"a")
    net.settle()
    snapshot = net[1].take_snapshot()
    assert snapshot == Snapshot(last=EntryId(2, 1), voters=VoterSet.of([1, 2, 3]))
    assert net[1].disk.entries == []
    net.restart(1)
    assert net[1].state == [b"a"]
    assert net[1].node.commit == 2


def test_a_restarted_node_goes_on_from_its_snapshot() -> None:
    net = Net([1, 2, 3])
    net.elect(1).propose(b"a", b"b")
    net.settle()
    net[2].take_snapshot()
    net.leader.propose(b"c")
    net.settle()
    net.restart(2)
    net.pass_time(4)
    assert net[2].state == [b"a", b"b", b"c"]


def test_who_is_too_far_behind_gets_the_snapshot_and_what_follows() -> None:
    net = lagging()
    net.restart(3)
    net[1].propose(b"d")
    net.pass_time(6)
    assert net[3].state == [b"a", b"b", b"c", b"d"]
    assert net[3].disk.snapshot.last == EntryId(4, 1)


def test_a_snapshot_is_not_sent_to_nobody() -> None:
    net = lagging()
    offered: list[InstallSnapshot] = []
    net.on_send = lambda each: offered.append(each.message) if isinstance(each.message, InstallSnapshot) else None
    net.pass_time(60)
    assert offered == []


def test_a_snapshot_that_gets_lost_is_offered_again() -> None:
    net = lagging()
    net.restart(3)
    for _ in range(SETTINGS.snapshot_ticks):
        net.tick(*net.hosts)
        net.lose(lambda message: isinstance(message, InstallSnapshot))
        net.deliver()
        net.lose(lambda message: isinstance(message, InstallSnapshot))
    pace = {replica.node_id: replica.pace for replica in net[1].node.status().replicas}
    assert pace[3] is Pace.SNAPSHOT
    net.pass_time(SETTINGS.snapshot_ticks)
    assert net[3].state == [b"a", b"b", b"c"]


def test_a_snapshot_that_failed_is_offered_again_without_waiting() -> None:
    net = lagging()
    net.restart(3)
    while net[1].node.status().replicas[2].pace is not Pace.SNAPSHOT:
        net.tick(*net.hosts)
        net.deliver()
    net.lose()
    net[1].node.snapshot_failed(3)
    net.pass_time(4)
    assert net[3].state == [b"a", b"b", b"c"]


def test_an_offered_snapshot_takes_the_place_of_the_log_and_is_acknowledged_when_it_is_on_disk() -> None:
    host = host_with(1, 1, 1)
    host.node.step(offer())
    ready = host.node.ready()
    assert ready is not None
    assert ready.snapshot == OFFERED
    assert ready.entries == ()
    assert [each.message for each in ready.messages] == [AppendReply(sender=1, term=2, match_index=10)]
    host.persist(ready)
    host.node.advance(ready)
    assert host.disk.entries == []
    assert host.node.voters.ids == (1, 2, 4)
    sent = host.step(append((10, 2), 2, term=2))
    assert sent_to(sent, 2) == [AppendReply(sender=1, term=2, match_index=11)]


def test_entries_may_follow_a_snapshot_in_the_same_write() -> None:
    host = host_with(1)
    host.node.step(offer())
    host.node.step(append((10, 2), 2, 2, term=2, commit=11))
    ready = host.node.ready()
    assert ready is not None
    assert ready.snapshot == OFFERED
    assert [entry.index for entry in ready.entries] == [11, 12]
    assert [entry.index for entry in ready.committed] == [11]


def test_a_snapshot_of_what_is_here_only_says_that_it_is_committed() -> None:
    host = host_with(1, 1, 2, 2)
    sent = host.step(offer(Snapshot(last=EntryId(3, 2), voters=VoterSet.of([9]))))
    assert host.node.commit == 3
    assert host.disk.last_index == 4
    assert host.node.voters.ids == (1, 2, 3)
    assert sent_to(sent, 2) == [AppendReply(sender=1, term=2, match_index=3)]


def test_a_snapshot_that_is_older_than_what_is_committed_is_no_news() -> None:
    host = host_with(1, 1, 1, 1)
    host.step(append((4, 1), term=2, commit=4))
    sent = host.step(offer(Snapshot(last=EntryId(2, 1))))
    assert sent_to(sent, 2) == [AppendReply(sender=1, term=2, match_index=4)]
    assert host.disk.last_index == 4


def test_a_snapshot_of_an_older_leader_is_not_taken() -> None:
    host = host_with(1, term=5)
    sent = host.step(offer(term=2))
    assert sent_to(sent, 2) == [HeartbeatReply(sender=1, term=5, round=0)]
    assert host.disk.last_index == 1


def test_a_snapshot_that_comes_while_entries_are_written_waits_its_turn() -> None:
    host = host_with(1)
    host.node.step(append((1, 1), 1, 1, term=2))
    first = host.node.ready()
    assert first is not None
    host.node.step(offer())
    assert host.node.snapshot_at(0) is None
    host.node.compacted()
    host.persist(first)
    host.apply(first)
    host.node.advance(first)
    second = host.node.ready()
    assert second is not None
    assert second.snapshot == OFFERED


def test_who_asks_for_what_is_gone_gets_the_snapshot_even_if_it_was_replicating() -> None:
    net = Net([1, 2, 3])
    leader = net.elect(1)
    leader.propose(b"a", b"b")
    net.carry_out(1)
    net.lose(lambda _: True)
    net[1].step(AppendReply(sender=2, term=1, match_index=3))
    net.take_snapshot(1)
    sent = net[1].step(AppendRejected(sender=3, term=1, rejected_index=3, hint=EntryId(1, 1)))
    assert [type(message) for message in sent_to(sent, 3)] == [InstallSnapshot]


def test_entries_may_be_kept_for_those_who_are_a_little_behind() -> None:
    net = Net([1, 2, 3])
    leader = net.elect(1)
    net.cut_off = {3}
    leader.propose(b"a", b"b")
    net.settle()
    net.take_snapshot(1, keep_entries=2)
    net.cut_off = set()
    net.pass_time(4)
    assert net[3].state == [b"a", b"b"]
    assert net[3].disk.snapshot.last.index == 0


def test_voters_that_changed_before_a_snapshot_are_known_after_it() -> None:
    net = Net([1, 2, 3], observers=[4])
    net[4].node.set_contacts([1])
    net.elect(1)
    net.pass_time(2)
    net[1].node.add_voter(Voter(4))
    net.settle()
    for node_id in net.hosts:
        net.take_snapshot(node_id)
        net.restart(node_id)
    assert [host.node.voters.ids for host in net.hosts.values()] == [(1, 2, 3, 4)] * 4
    net.elect(4)
    assert [entry.kind for entry in net[4].committed] == [EntryKind.NOOP]


def test_a_new_node_may_start_from_a_snapshot_and_its_hard_state() -> None:
    host = host_with()
    host.disk.install(OFFERED, (b"x",))
    host.disk.hard_state = HardState(term=2)
    host.restart()
    assert host.state == [b"x"]
    assert host.node.commit == 10
