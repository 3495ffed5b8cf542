"""The paper's section 8: reads that miss nothing (dissertation, 6.4), and the hand-over of leadership (3.10)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.errors import BrokerError, ErrorCode
from ottla.raft.messages import AppendReply, HeartbeatReply, ReadReply, ReadRequest, TimeoutNow, VoteRequest
from ottla.raft.ready import ReadResult, RoleName
from tests.raft.host import Host
from tests.raft.net import ELECTION_TICKS, SETTINGS, Net
from tests.raft.test_paper_5_elections import elected, host_with, sent_to


def serving() -> Host:
    """A leader of three that has committed the first entry of its term."""
    leader = elected(host_with())
    leader.step(AppendReply(sender=2, term=1, match_index=1))
    return leader


# Reads


def test_a_read_is_answered_when_a_majority_still_follows() -> None:
    leader = serving()
    read_id = leader.node.read()
    sent = leader.carry_out()
    assert [getattr(message, "round", None) for message in sent_to(sent, 2)] == [1]
    assert leader.reads == []
    leader.step(HeartbeatReply(sender=2, term=1, round=1))
    assert leader.reads == [ReadResult(read_id=read_id, index=1)]


def test_an_answer_to_an_earlier_round_does_not_do() -> None:
    leader = serving()
    leader.node.read()
    leader.carry_out()
    leader.step(HeartbeatReply(sender=2, term=1, round=0))
    assert leader.reads == []


def test_a_new_leader_serves_no_read_before_it_knows_what_is_committed() -> None:
    leader = elected(host_with(1, 1))
    read_id = leader.node.read()
    leader.carry_out()
    leader.step(HeartbeatReply(sender=2, term=2, round=0))
    assert leader.reads == []
    leader.step(AppendReply(sender=2, term=2, match_index=3))
    leader.step(HeartbeatReply(sender=2, term=2, round=1))
    assert leader.reads == [ReadResult(read_id=read_id, index=3)]


def test_a_leader_that_was_replaced_says_so_to_its_readers() -> None:
    leader = serving()
    read_id = leader.node.read()
    leader.carry_out()
    leader.step(HeartbeatReply(sender=2, term=7, round=0))
    assert leader.reads == [ReadResult(read_id=read_id, index=None)]


def test_a_cluster_of_one_answers_at_once() -> None:
    net = Net([1])
    net.pass_time(1)
    read_id = net[1].node.read()
    net.settle()
    assert net[1].reads == [ReadResult(read_id=read_id, index=1)]


@pytest.mark.parametrize("reader", [2, 4])
def test_followers_and_observers_ask_the_leader(reader: int) -> None:
    net = Net([1, 2, 3], observers=[4])
    net[4].node.set_contacts([1])
    net.elect(1).propose(b"a")
    net.pass_time(1)
    read_id = net[reader].node.read()
    net.settle()
    assert net[reader].reads == [ReadResult(read_id=read_id, index=2)]


def test_without_a_leader_there_is_nobody_to_ask() -> None:
    with pytest.raises(BrokerError) as error:
        host_with().node.read()
    assert error.value.code is ErrorCode.LEADER_NOT_AVAILABLE


def test_the_number_of_reads_that_wait_is_bounded() -> None:
    leader = serving()
    leader.node._core.settings = replace(SETTINGS, pending_reads_max=2)
    leader.node.read()
    leader.step(ReadRequest(sender=2, term=1, read_id=5), ReadRequest(sender=2, term=1, read_id=6))
    with pytest.raises(BrokerError) as error:
        leader.node.read()
    assert error.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    sent = leader.step(HeartbeatReply(sender=2, term=1, round=1))
    assert sent_to(sent, 2) == [ReadReply(sender=1, term=1, read_id=5, index=1)]


def test_read_ids_of_another_life_differ() -> None:
    hosts = [replace(serving(), seed=seed) for seed in range(2)]
    first, second = (Host(node_id=1, disk=host.disk, settings=SETTINGS, seed=host.seed) for host in hosts)
    assert first.node._next_read_id != second.node._next_read_id


# Handing over


def test_leadership_goes_to_the_voter_that_was_chosen() -> None:
    net = Net([1, 2, 3])
    net.elect(1).propose(b"a")
    net.settle()
    net[1].node.transfer_leadership(3)
    net.settle()
    assert net.leader.node_id == 3
    assert net[1].node.leader_id == 3
    assert net.leader.state == [b"a"]


def test_without_a_choice_it_goes_to_the_one_that_is_furthest() -> None:
    net = Net([1, 2, 3])
    net.elect(1)
    net.cut_off = {2}
    net[1].propose(b"a")
    net.settle()
    net.cut_off = set()
    net[1].node.transfer_leadership()
    net.settle()
    assert net.leader.node_id == 3


def test_the_successor_is_told_only_when_it_has_everything() -> None:
    leader = serving()
    leader.step(AppendReply(sender=2, term=1, match_index=1))
    leader.propose(b"a")
    leader.node.transfer_leadership(2)
    assert TimeoutNow(sender=1, term=1) not in sent_to(leader.carry_out(), 2)
    sent = leader.step(AppendReply(sender=2, term=1, match_index=2))
    assert TimeoutNow(sender=1, term=1) in sent_to(sent, 2)


def test_nothing_is_proposed_while_leadership_is_handed_over() -> None:
    leader = serving()
    leader.node.transfer_leadership(2)
    with pytest.raises(BrokerError) as error:
        leader.propose(b"a")
    assert error.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    with pytest.raises(BrokerError) as error:
        leader.node.remove_voter(3)
    assert error.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_leader_whose_successor_is_not_elected_goes_on() -> None:
    leader = serving()
    leader.node.transfer_leadership(3)
    for _ in range(ELECTION_TICKS):
        leader.tick()
        leader.step(HeartbeatReply(sender=2, term=1, round=0))
    leader.propose(b"a")


@pytest.mark.parametrize("target", [1, 9])
def test_a_successor_must_be_another_voter(target: int) -> None:
    with pytest.raises(BrokerError) as error:
        serving().node.transfer_leadership(target)
    assert error.value.code is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE


def test_the_only_voter_has_no_successor() -> None:
    net = Net([1])
    net.pass_time(1)
    with pytest.raises(BrokerError) as error:
        net[1].node.transfer_leadership()
    assert error.value.code is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE


def test_who_is_told_to_take_over_campaigns_at_once_and_without_a_pre_vote() -> None:
    host = host_with(1)
    sent = host.step(TimeoutNow(sender=2, term=1))
    assert sent_to(sent, 3) == [VoteRequest(sender=1, term=2, last=host.node._core.log.last, by_transfer=True)]


def test_a_late_word_to_take_over_and_one_to_an_observer_change_nothing() -> None:
    host = host_with(1, term=3)
    host.step(TimeoutNow(sender=2, term=1))
    assert host.node.term == 3
    stranger = host_with(1, node_id=9)
    stranger.step(TimeoutNow(sender=2, term=1))
    assert stranger.node.leadership.role is RoleName.FOLLOWER
