"""The paper's section 6 by the dissertation's chapter 4: one voter at a time; and observers, who never vote."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.errors import BrokerError, ErrorCode
from ottla.raft.entry import EntryId
from ottla.raft.messages import Append, AppendRejected, AppendReply, Attach, Heartbeat, HeartbeatReply, TimeoutNow
from ottla.raft.ready import RoleName
from ottla.raft.voters import Voter
from tests.raft.host import MemoryDisk
from tests.raft.net import ELECTION_TICKS, SETTINGS, Net
from tests.raft.test_paper_5_elections import elected, host_with, sent_to


def cluster(voters: int = 3, observers: int = 1) -> Net:
    """Node 1 leads, and the observers have attached themselves."""
    net = Net(range(1, voters + 1), observers=range(voters + 1, voters + observers + 1))
    for host in net.hosts.values():
        host.node.set_contacts(range(1, voters + 1))
    net.elect(1)
    net.pass_time(2)
    return net


def code_of(error: pytest.ExceptionInfo[BrokerError]) -> ErrorCode:
    return error.value.code


# 4.1: safety


def test_a_new_voter_counts_as_soon_as_the_change_is_in_the_log() -> None:
    net = cluster()
    net[1].node.add_voter(Voter(4))
    net.carry_out(1)
    assert net[1].node.voters.ids == (1, 2, 3, 4)
    net[1].step(AppendReply(sender=2, term=1, match_index=2))
    assert net[1].node.commit == 1, "two of four are no majority"
    net[1].step(AppendReply(sender=4, term=1, match_index=2))
    assert net[1].node.commit == 2


def test_a_removed_voter_no_longer_counts() -> None:
    net = cluster()
    net[1].node.remove_voter(3)
    net.carry_out(1)
    net[1].step(AppendReply(sender=3, term=1, match_index=2))
    assert net[1].node.commit == 1
    net[1].step(AppendReply(sender=2, term=1, match_index=2))
    assert net[1].node.commit == 2


def test_a_change_waits_until_the_one_before_is_committed() -> None:
    net = cluster()
    net[1].node.add_voter(Voter(4))
    with pytest.raises(BrokerError) as error:
        net[1].node.remove_voter(2)
    assert code_of(error) is ErrorCode.REQUEST_TIMED_OUT
    net.settle()
    net[1].node.remove_voter(2)
    net.settle()
    assert [host.node.voters.ids for host in net.hosts.values()] == [(1, 3, 4)] * 4


def test_a_new_leader_changes_nothing_before_it_has_committed_an_entry_of_its_term() -> None:
    """An older leader's change could be under way, of which the new one knows nothing."""
    leader = elected(host_with(1, 1))
    with pytest.raises(BrokerError) as error:
        leader.node.remove_voter(2)
    assert code_of(error) is ErrorCode.REQUEST_TIMED_OUT
    leader.step(AppendReply(sender=2, term=2, match_index=3))
    leader.node.remove_voter(2)


def test_a_change_that_is_replaced_by_another_leader_is_taken_back() -> None:
    net = cluster()
    net.cut_off = {1}
    net[1].node.remove_voter(3)
    net.carry_out(1)
    assert net[1].node.voters.ids == (1, 2)
    net.elect(2)
    net.cut_off = set()
    net.pass_time(2 * ELECTION_TICKS)
    assert list(net[1].node.voters.ids) == [1, 2, 3]


def test_a_change_is_remembered_over_a_crash() -> None:
    net = cluster()
    net[1].node.add_voter(Voter(4, bytes(range(16))))
    net.settle()
    net.restart(4)
    assert net[4].node.voters.ids == (1, 2, 3, 4)
    assert net[4].node.voters.find(4) == Voter(4, bytes(range(16)))


# 4.2.1: new voters


def test_a_node_must_have_the_log_to_become_a_voter() -> None:
    net = cluster(observers=2)
    net.cut_off = {4}
    net[1].propose(b"a")
    net.settle()
    net.pass_time(ELECTION_TICKS)
    for node_id in (4, 9):
        with pytest.raises(BrokerError) as error:
            net[1].node.add_voter(Voter(node_id))
        assert code_of(error) is ErrorCode.REPLICA_NOT_AVAILABLE
    net[1].node.add_voter(Voter(5))


def test_one_voter_becomes_three_and_one_again() -> None:
    net = cluster(voters=1, observers=2)
    for node_id in (2, 3):
        net.pass_time(2)
        net[1].node.add_voter(Voter(node_id))
        net.settle()
    net[1].propose(b"a")
    net.settle()
    net.crash(1)
    net.elect(2)
    net.leader.propose(b"b")
    net.settle()
    assert net[2].state == net[3].state == [b"a", b"b"]
    net[2].node.remove_voter(1)
    net.settle()
    net[2].node.remove_voter(3)
    net.settle()
    assert net[2].node.voters.ids == (2,)
    net.crash(3)
    net[2].propose(b"c")
    net.settle()
    assert net[2].state == [b"a", b"b", b"c"]


def test_a_voter_votes_before_it_knows_that_it_is_one() -> None:
    """The change is committed by others, and its vote is needed before the change reaches it."""
    net = cluster(voters=2, observers=1)
    net.cut_off = {3}
    net[1].node.add_voter(Voter(3))
    net.settle()
    assert net[2].node.voters.ids == (1, 2, 3)
    assert not net[3].node.leadership.is_voter
    net.cut_off = set()
    net.crash(1)
    net.elect(2)
    assert net[3].node.leadership.is_voter


# 4.2.2: the leader is removed


def test_a_leader_that_removes_itself_leads_until_that_is_committed_and_names_a_successor() -> None:
    net = cluster()
    net[1].node.remove_voter(1)
    net.carry_out(1)
    net.lose()
    assert net[1].node.is_leader
    assert net[1].step(AppendReply(sender=2, term=1, match_index=2)) == []
    sent = net[1].step(AppendReply(sender=3, term=1, match_index=2))
    assert TimeoutNow(sender=1, term=1) in [each.message for each in sent]
    assert not net[1].node.is_leader
    assert net[1].node.commit == 2


def test_a_leader_that_no_longer_votes_does_not_count_itself() -> None:
    net = cluster(voters=2)
    net[1].node.remove_voter(1)
    net.carry_out(1)
    assert net[1].node.commit == 1
    net[1].step(AppendReply(sender=2, term=1, match_index=2))
    assert net[1].node.commit == 2


def test_who_removed_itself_campaigns_as_long_as_that_may_be_needed() -> None:
    """Nobody else has its entries, and the other voter can't be elected without its vote."""
    net = cluster(voters=2)
    net.cut_off = {1}
    net[1].node.remove_voter(1)
    net.carry_out(1)
    net.cut_off = set()
    net.restart(1)
    net.restart(2)
    net.lose()
    assert net[1].node.voters.ids == (2,)
    net.time_out(2)
    net.settle()
    assert not net[2].node.is_leader
    for _ in range(8 * ELECTION_TICKS):
        net.tick(1)
        net.settle()
    assert net[2].node.voters.ids == (2,)
    net.pass_time(1)
    assert net.leader.node_id == 2


# 4.2.3: removed nodes disturb nobody


def test_a_removed_node_that_does_not_know_it_disturbs_nobody_and_learns_of_it() -> None:
    net = cluster()
    net.cut_off = {3}
    net[1].node.remove_voter(3)
    net.settle()
    net.pass_time(5 * ELECTION_TICKS)
    assert net[3].node.leadership.is_voter
    net.cut_off = set()
    net.pass_time(2 * ELECTION_TICKS)
    assert net.leader.node_id == 1
    assert net.leader.node.term == 1
    assert net[3].node.leadership.role is RoleName.FOLLOWER
    assert not net[3].node.leadership.is_voter


def test_a_removed_node_follows_as_an_observer_and_can_come_back() -> None:
    net = cluster()
    net[1].node.remove_voter(3)
    net.settle()
    net[1].propose(b"a")
    net.settle()
    assert net[3].state == [b"a"]
    net.pass_time(1)
    net[1].node.add_voter(Voter(3))
    net.settle()
    assert net[3].node.voters.ids == (1, 2, 3)


# Observers


def test_whoever_reads_the_log_knows_the_voters() -> None:
    net = cluster()
    assert net[4].node.voters.ids == (1, 2, 3)


def test_an_observer_gets_what_is_committed_and_nothing_else() -> None:
    net = cluster()
    net.cut_off = {2, 3}
    net[1].propose(b"a")
    net.settle()
    assert net[4].disk.last_index == 1
    net.cut_off = set()
    net.pass_time(2)
    assert net[4].state == [b"a"]


def test_an_observer_is_not_waited_for_and_does_not_campaign() -> None:
    net = cluster(voters=1, observers=3)
    net.cut_off = {2, 3, 4}
    net[1].propose(b"a")
    net.settle()
    assert net[1].state == [b"a"]
    net.pass_time(10 * ELECTION_TICKS)
    assert {net[node_id].node.leadership.role for node_id in (2, 3, 4)} == {RoleName.FOLLOWER}


def test_a_node_without_voters_waits() -> None:
    net = Net([], observers=[1, 2])
    net.pass_time(10 * ELECTION_TICKS)
    assert {host.node.term for host in net.hosts.values()} == {0}


def test_an_observer_finds_the_new_leader() -> None:
    net = cluster()
    net.crash(1)
    net.elect(2)
    net.pass_time(6 * ELECTION_TICKS)
    assert net[4].node.leader_id == 2
    net.leader.propose(b"a")
    net.settle()
    assert net[4].state == [b"a"]


def test_a_new_leader_that_knows_of_observers_need_not_wait_for_them_to_ask() -> None:
    net = cluster()
    net.crash(1)
    net.elect(2)
    net[2].node.observe([3, 4])
    net.settle()
    assert net[4].node.leader_id == 2


def test_an_observer_that_begins_anew_gets_everything_again() -> None:
    net = cluster()
    net[1].propose(b"a")
    net.settle()
    net[4].disk = MemoryDisk()
    net.restart(4)
    net[4].node.set_contacts([1])
    net[1].propose(b"b")
    net.settle()
    net.pass_time(ELECTION_TICKS)
    assert net[4].state == [b"a", b"b"]


def test_an_observer_that_lost_what_it_had_is_believed() -> None:
    """Its rejection is of an entry that it once acknowledged."""
    leader = elected(host_with())
    leader.step(AppendReply(sender=2, term=1, match_index=1))
    leader.step(Attach(sender=4, term=0))
    leader.step(AppendReply(sender=4, term=1, match_index=1))
    sent = leader.step(AppendRejected(sender=4, term=1, rejected_index=1, hint=leader.node._core.log.base))
    (message,) = sent_to(sent, 4)
    assert isinstance(message, Append)
    assert message.previous.index == 0
    assert [entry.index for entry in message.entries] == [1]


def test_an_observer_that_restarts_hears_what_is_committed_although_it_has_all_entries() -> None:
    net = cluster()
    net[1].propose(b"a")
    net.settle()
    net.restart(4)
    net[4].step(Heartbeat(sender=1, term=1, commit=EntryId(0, 0), match_index=0, round=0))
    net.pass_time(ELECTION_TICKS)
    assert net[4].state == [b"a"]


def test_heartbeats_to_observers_are_rarer_and_expect_nothing_of_their_logs() -> None:
    net = cluster()
    beats: list[tuple[int, Heartbeat]] = []
    net.on_send = lambda each: beats.append((each.to, each.message)) if isinstance(each.message, Heartbeat) else None
    net.pass_time(10 * ELECTION_TICKS)
    assert sum(to == 4 for to, _ in beats) == 10
    assert sum(to == 2 for to, _ in beats) == 50
    assert {message.match_index for to, message in beats if to == 4} == {0}


def test_an_observer_that_falls_silent_is_forgotten() -> None:
    net = cluster()
    net.crash(4)
    net.pass_time(6 * ELECTION_TICKS)
    assert [replica.node_id for replica in net[1].node.status().replicas] == [1, 2, 3]


def test_the_number_of_observers_is_bounded() -> None:
    leader = elected(host_with())
    leader.node._core.settings = replace(SETTINGS, observers_max=2)
    leader.step(*[Attach(sender=node_id, term=1) for node_id in range(10, 20)])
    replicas = leader.node.status().replicas
    assert [replica.node_id for replica in replicas if not replica.is_voter] == [10, 11]


def test_a_voter_that_asks_for_the_log_is_not_thereby_reached() -> None:
    """It hears nothing of the leader: only what it answers shows that it does."""
    leader = elected(host_with())
    for _ in range(ELECTION_TICKS):
        leader.tick()
        leader.step(Attach(sender=2, term=1), Attach(sender=3, term=1))
    leader.tick(ELECTION_TICKS)
    assert not leader.node.is_leader


def test_a_leader_that_hears_from_a_majority_stays() -> None:
    leader = elected(host_with())
    for _ in range(5 * ELECTION_TICKS):
        leader.tick()
        leader.step(HeartbeatReply(sender=2, term=1, round=0))
    assert leader.node.is_leader


def test_a_leader_does_not_step_down_because_a_new_voter_has_not_answered_as_one_yet() -> None:
    net = cluster(voters=1, observers=1)
    net.pass_time(ELECTION_TICKS - net[1].node._core.ticks_of_silence - 1)
    net[1].node.add_voter(Voter(2))
    net.tick(1)
    assert net[1].node.is_leader
    net.settle()
    assert net[1].node.commit == net[1].node.status().last_index
