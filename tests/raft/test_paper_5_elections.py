"""The paper's sections 5.1 (terms), 5.2 (elections), 5.4.1 (who may be elected), and pre-votes (dissertation, 9.6)."""

from __future__ import annotations

from collections import Counter

import pytest

from ottla.errors import InvariantError
from ottla.raft.entry import Entry, EntryId, HardState
from ottla.raft.follower import DOUBT_TICKS
from ottla.raft.messages import (
    Append,
    AppendReply,
    Heartbeat,
    HeartbeatReply,
    Message,
    Outgoing,
    ReadReply,
    VoteReply,
    VoteRequest,
)
from ottla.raft.ready import RoleName
from ottla.raft.voters import VoterSet
from tests.raft.host import Host, MemoryDisk
from tests.raft.net import ELECTION_TICKS, SETTINGS, Latest, Net

NOTHING = EntryId(0, 0)


def host_with(*terms: int, term: int | None = None, node_id: int = 1, voters: int = 3) -> Host:
    """A follower whose log has entries of these terms, and which has not voted in its term."""
    disk = MemoryDisk(VoterSet.of(range(1, voters + 1)))
    if terms:
        disk.write([Entry(index=index, term=each) for index, each in enumerate(terms, 1)])
    disk.hard_state = HardState(term=max(terms, default=0) if term is None else term)
    return Host(node_id=node_id, disk=disk, settings=SETTINGS, make_random=Latest)


def sent_to(outgoing: list[Outgoing], to: int) -> list[Message]:
    return [each.message for each in outgoing if each.to == to]


def request(term: int, *, sender: int = 2, last: EntryId = NOTHING, pre_vote: bool = False) -> VoteRequest:
    return VoteRequest(sender=sender, term=term, last=last, pre_vote=pre_vote)


def heartbeat(term: int, *, sender: int = 2) -> Heartbeat:
    return Heartbeat(sender=sender, term=term, commit=NOTHING, match_index=0, round=0)


# 5.1: terms


@pytest.mark.parametrize(
    "message",
    [
        Append(sender=2, term=5, previous=NOTHING, commit=0),
        heartbeat(5),
        request(5),
        AppendReply(sender=2, term=5, match_index=0),
        HeartbeatReply(sender=2, term=5, round=0),
        VoteReply(sender=2, term=5, granted=False),
        VoteReply(sender=2, term=5, granted=False, pre_vote=True),
        ReadReply(sender=2, term=5, read_id=0, index=0),
    ],
    ids=lambda message: type(message).__name__,
)
@pytest.mark.parametrize("role", RoleName)
def test_a_higher_term_makes_a_follower_of_everybody(role: RoleName, message: Message) -> None:
    host = in_role(role)
    host.tick(ELECTION_TICKS - 1 if role is RoleName.LEADER else 0)
    host.node._core.ticks_of_silence = ELECTION_TICKS  # a leader that was just counted would not listen to candidates
    host.step(message)
    assert host.node.term == 5
    assert host.node.leadership.role is RoleName.FOLLOWER
    assert host.disk.hard_state.term == 5


def in_role(role: RoleName) -> Host:
    host = host_with()
    if role is RoleName.FOLLOWER:
        return host
    host.tick(2 * ELECTION_TICKS - 1)
    if role is not RoleName.PRE_CANDIDATE:
        host.step(VoteReply(sender=3, term=1, granted=True, pre_vote=True))
    if role is RoleName.LEADER:
        host.step(VoteReply(sender=3, term=1, granted=True))
    assert host.node.leadership.role is role
    return host


def elected(host: Host) -> Host:
    """With the votes of node 3, which has nothing of what the new leader sends yet."""
    host.tick(2 * ELECTION_TICKS - 1)
    term = host.node.term + 1
    host.step(VoteReply(sender=3, term=term, granted=True, pre_vote=True))
    host.step(VoteReply(sender=3, term=term, granted=True))
    assert host.node.is_leader
    return host


def test_a_leader_of_an_older_term_is_told_of_the_newer_one_and_otherwise_ignored() -> None:
    host = host_with(1, term=3)
    entries = [Entry(index=2, term=2)]
    sent = host.step(Append(sender=2, term=2, previous=EntryId(1, 1), commit=1, entries=entries))
    assert sent_to(sent, 2) == [HeartbeatReply(sender=1, term=3, round=0)]
    assert host.disk.last_index == 1
    assert host.node.leader_id is None


def test_a_candidate_of_an_older_term_is_told_of_the_newer_one() -> None:
    host = host_with(term=3)
    assert sent_to(host.step(request(2)), 2) == [VoteReply(sender=1, term=3, granted=False)]


def test_answers_of_an_older_term_are_ignored() -> None:
    host = in_role(RoleName.LEADER)
    host.step(VoteReply(sender=2, term=0, granted=True), AppendReply(sender=2, term=0, match_index=1))
    assert host.node.commit == 0


def test_the_term_is_on_disk_before_anything_of_it_is_said() -> None:
    host = host_with()
    host.node.step(request(5))
    ready = host.node.ready()
    assert ready is not None
    assert ready.hard_state == HardState(term=5, vote=2)
    assert [type(each.message) for each in ready.messages] == [VoteReply]


# 5.2: elections


def test_everybody_starts_as_a_follower() -> None:
    assert host_with(1, 2).node.leadership.role is RoleName.FOLLOWER


def test_a_follower_that_hears_from_the_leader_stays_one() -> None:
    host = host_with()
    for _ in range(20):
        host.tick(ELECTION_TICKS)
        host.step(heartbeat(1))
    assert host.node.leadership.role is RoleName.FOLLOWER


def test_a_follower_that_hears_nothing_campaigns_with_a_higher_term_and_votes_for_itself() -> None:
    host = host_with(1, 1, term=4)
    sent = host.tick(2 * ELECTION_TICKS - 1)
    asked = VoteRequest(sender=1, term=5, last=EntryId(2, 1), pre_vote=True)
    assert asked in sent_to(sent, 2)
    assert asked in sent_to(sent, 3)
    assert host.disk.hard_state.term == 4, "a pre-vote changes nothing"
    sent = host.step(VoteReply(sender=3, term=5, granted=True, pre_vote=True))
    assert sent_to(sent, 2) == [VoteRequest(sender=1, term=5, last=EntryId(2, 1))]
    assert host.disk.hard_state == HardState(term=5, vote=1)
    assert host.node.leadership.role is RoleName.CANDIDATE


@pytest.mark.parametrize(
    ("voters", "votes", "wins"),
    [
        (1, {}, True),
        (3, {2: True}, True),
        (3, {2: False}, False),
        (5, {2: True, 3: True}, True),
        (5, {2: True, 3: False, 4: False}, False),
        (5, {2: True}, False),
    ],
)
def test_a_majority_of_the_votes_makes_a_leader(voters: int, votes: dict[int, bool], wins: bool) -> None:
    host = host_with(voters=voters)
    host.tick(2 * ELECTION_TICKS - 1)
    for voter in range(2, voters + 1):
        host.step(VoteReply(sender=voter, term=1, granted=True, pre_vote=True))
    for voter, granted in votes.items():
        host.step(VoteReply(sender=voter, term=1, granted=granted))
    assert host.node.is_leader is wins


def test_a_vote_that_comes_twice_counts_once() -> None:
    host = host_with(voters=5)
    host.tick(2 * ELECTION_TICKS - 1)
    for voter in (2, 3):
        host.step(VoteReply(sender=voter, term=1, granted=True, pre_vote=True))
    host.step(*[VoteReply(sender=2, term=1, granted=True)] * 5)
    assert not host.node.is_leader


def test_a_candidates_own_vote_counts_when_it_is_on_disk() -> None:
    host = host_with(voters=1)
    host.node.tick()
    ready = host.node.ready()
    assert ready is not None
    assert ready.hard_state == HardState(term=1, vote=1)
    assert not host.node.is_leader
    host.persist(ready)
    host.node.advance(ready)
    assert host.node.is_leader


def test_a_vote_on_disk_from_an_earlier_write_is_not_the_one_that_is_waited_for() -> None:
    """The Ready that was being written when the campaign began does not hold the candidate's vote."""
    host = host_with(voters=1, term=3)
    host.node.set_contacts([9])
    host.node.step(VoteReply(sender=2, term=4, granted=False))
    earlier = host.node.ready()
    assert earlier is not None
    host.node.tick()
    host.persist(earlier)
    host.node.advance(earlier)
    assert not host.node.is_leader
    host.carry_out()
    assert host.node.is_leader


def test_a_node_votes_once_in_a_term_first_come_first_served() -> None:
    host = host_with()
    assert sent_to(host.step(request(1, sender=2)), 2) == [VoteReply(sender=1, term=1, granted=True)]
    assert sent_to(host.step(request(1, sender=3)), 3) == [VoteReply(sender=1, term=1, granted=False)]
    assert sent_to(host.step(request(1, sender=2)), 2) == [VoteReply(sender=1, term=1, granted=True)]


def test_a_vote_is_remembered_over_a_crash() -> None:
    host = host_with()
    host.step(request(1, sender=2))
    host.restart()
    assert sent_to(host.step(request(1, sender=3)), 3) == [VoteReply(sender=1, term=1, granted=False)]


@pytest.mark.parametrize("role", [RoleName.PRE_CANDIDATE, RoleName.CANDIDATE])
def test_a_candidate_follows_the_leader_of_its_term(role: RoleName) -> None:
    host = in_role(role)
    host.step(heartbeat(max(1, host.node.term)))
    assert host.node.leadership.role is RoleName.FOLLOWER
    assert host.node.leader_id == 2


def test_two_leaders_of_one_term_stop_whoever_notices() -> None:
    host = in_role(RoleName.LEADER)
    with pytest.raises(InvariantError, match="also leads"):
        host.node.step(heartbeat(1))
    host = host_with()
    host.step(heartbeat(1, sender=2))
    with pytest.raises(InvariantError, match="two leaders"):
        host.node.step(heartbeat(1, sender=3))


def test_a_split_vote_is_followed_by_another_try() -> None:
    host = in_role(RoleName.CANDIDATE)
    sent = host.tick(2 * ELECTION_TICKS - 1)
    assert VoteRequest(sender=1, term=2, last=NOTHING, pre_vote=True) in sent_to(sent, 2)


def test_a_new_leader_writes_an_entry_of_its_term_and_sends_it_to_all() -> None:
    host = in_role(RoleName.LEADER)
    assert [entry.term for entry in host.disk.entries] == [1]
    assert host.leaderships[-1].leader_id == 1


def test_time_outs_differ_from_one_to_twice_the_election_time_out() -> None:
    seen = Counter[int]()
    for seed in range(300):
        disk = MemoryDisk(VoterSet.of([1, 2, 3]))
        host = Host(node_id=1, disk=disk, settings=SETTINGS, seed=seed)
        ticks = 0
        while host.node.leadership.role is RoleName.FOLLOWER:
            host.tick()
            ticks += 1
        seen[ticks] += 1
    assert set(seen) == set(range(ELECTION_TICKS, 2 * ELECTION_TICKS))


# 5.4.1: only who has everything that is committed


@pytest.mark.parametrize(
    ("own", "candidate", "granted"),
    [
        ((), EntryId(0, 0), True),
        ((1,), EntryId(1, 1), True),
        ((1,), EntryId(2, 1), True),
        ((1, 1), EntryId(1, 1), False),
        ((1,), EntryId(1, 2), True),
        ((1, 1, 1), EntryId(1, 2), True),
        ((2,), EntryId(9, 1), False),
    ],
)
@pytest.mark.parametrize("pre_vote", [False, True])
def test_a_vote_goes_only_to_a_log_that_is_as_good(
    own: tuple[int, ...], candidate: EntryId, granted: bool, pre_vote: bool
) -> None:
    host = host_with(*own)
    (reply,) = sent_to(host.step(request(9, last=candidate, pre_vote=pre_vote)), 2)
    assert isinstance(reply, VoteReply)
    assert reply.granted is granted


def test_a_vote_that_is_refused_does_not_put_off_the_own_campaign() -> None:
    """Otherwise a node with a poor log could keep a good one from being elected."""
    host = host_with(1, 1)
    host.tick(2 * ELECTION_TICKS - 2)
    core = host.node._core
    before = core.election_timeout_ticks - core.ticks_of_silence
    host.step(request(1, last=NOTHING, pre_vote=True))
    assert core.election_timeout_ticks - core.ticks_of_silence == before


# Pre-votes, and the lease of a leader that is heard


def test_a_pre_vote_is_granted_for_a_term_that_is_not_entered() -> None:
    host = host_with()
    (reply,) = sent_to(host.step(request(7, pre_vote=True)), 2)
    assert reply == VoteReply(sender=1, term=7, granted=True, pre_vote=True)
    assert host.node.term == 0
    assert host.disk.hard_state == HardState()


def test_pre_votes_may_be_granted_to_several() -> None:
    host = host_with()
    for sender in (2, 3):
        (reply,) = sent_to(host.step(request(7, sender=sender, pre_vote=True)), sender)
        assert isinstance(reply, VoteReply)
        assert reply.granted


@pytest.mark.parametrize("pre_vote", [False, True])
def test_who_hears_the_leader_does_not_listen_to_candidates(pre_vote: bool) -> None:
    host = host_with()
    host.step(heartbeat(1, sender=2))
    host.tick(ELECTION_TICKS - 1)
    assert host.step(request(5, sender=3, pre_vote=pre_vote)) == []
    assert host.node.term == 1
    host.tick()
    assert len(host.step(request(5, sender=3, pre_vote=pre_vote))) == 1


def test_a_candidate_that_the_leader_has_chosen_is_listened_to() -> None:
    host = host_with()
    host.step(heartbeat(1, sender=2))
    chosen = VoteRequest(sender=3, term=2, last=NOTHING, by_transfer=True)
    assert sent_to(host.step(chosen), 3) == [VoteReply(sender=1, term=2, granted=True)]


def test_a_node_that_is_cut_off_does_not_raise_its_term() -> None:
    net = Net([1, 2, 3])
    net.elect(1)
    net.cut_off = {3}
    net.pass_time(10 * ELECTION_TICKS)
    assert net[3].node.term == 1
    net.cut_off = set()
    net.pass_time(2 * ELECTION_TICKS)
    assert net.leader.node_id == 1
    assert net.leader.node.term == 1
    assert net[3].node.leader_id == 1


def test_a_node_with_a_higher_term_than_the_leaders_gets_the_cluster_to_elect_anew() -> None:
    """It may neither follow nor be elected otherwise."""
    net = Net([1, 2, 3])
    net.elect(1)
    net.crash(3)
    net[3].disk.hard_state = HardState(term=8)
    net.restart(3)
    net.pass_time(4 * ELECTION_TICKS)
    assert net.leader.node.term >= 8
    assert net[3].node.leader_id == net.leader.node_id


# Signs from elsewhere that the leader is dead.


def silence(net: Net, ticks: int) -> None:
    """The leader, node 1, is dead, and this much time passes."""
    net.crash(1)
    net.tick(2, 3, count=ticks)


def test_who_is_told_that_a_silent_leader_is_dead_elects_another_at_once() -> None:
    net = Net([1, 2, 3])
    net.elect(1)
    silence(net, SETTINGS.heartbeat_ticks + 1)
    for node_id in (2, 3):
        net[node_id].node.doubt_leader()
    net.pass_time(1)
    assert net.leader.node_id == 2, "the first of the others, and it need not try twice"


def test_the_next_voter_campaigns_if_the_first_is_dead_too() -> None:
    net = Net([1, 2, 3, 4, 5])
    net.elect(1)
    net.crash(1)
    net.crash(2)
    net.tick(3, 4, 5, count=SETTINGS.heartbeat_ticks + 1)
    for node_id in (3, 4, 5):
        net[node_id].node.doubt_leader()
    net.pass_time(1 + DOUBT_TICKS)
    assert net.leader.node_id == 3


def test_a_leader_that_was_heard_a_moment_ago_may_miss_no_other_heartbeat_when_it_is_doubted() -> None:
    net = Net([1, 2, 3])
    leader = net.elect(1)
    net.tick(2, 3, count=SETTINGS.heartbeat_ticks)
    for node_id in (2, 3):
        net[node_id].node.doubt_leader()
        assert net[node_id].node.quiet_ticks == 0
    net.settle()
    assert (leader.node.is_leader, leader.node.term) == (True, 1)

    net.crash(1)
    net.pass_time(2)

    assert net.leader.node_id == 2


@pytest.mark.parametrize("how", ["is heard", "is trusted"])
def test_a_doubt_ends_when_the_leader(how: str) -> None:
    net = Net([1, 2, 3])
    net.elect(1)
    net.tick(2, 3, count=SETTINGS.heartbeat_ticks)
    for node_id in (2, 3):
        net[node_id].node.doubt_leader()
    if how == "is heard":
        net.tick(1, count=SETTINGS.heartbeat_ticks)
        net.settle()
        silence(net, SETTINGS.heartbeat_ticks + 2)
    else:
        for node_id in (2, 3):
            net[node_id].node.trust_leader()
        silence(net, 2)
    net.settle()
    assert net[2].node.leader_id == net[3].node.leader_id == 1, "it is waited for as long as usual"


def test_a_leader_whose_process_has_ended_is_replaced_at_once() -> None:
    net = Net([1, 2, 3])
    net.elect(1)
    net.crash(1)
    for node_id in (2, 3):
        net[node_id].node.doubt_leader(has_ended=True)
    net.pass_time(1)
    assert net.leader.node_id == 2


def test_voters_that_doubt_at_the_same_moment_do_not_campaign_at_the_same_moment() -> None:
    """Their votes would be split."""
    net = Net([1, 2, 3])
    net.elect(1)
    net.crash(1)
    for node_id in (2, 3):
        net[node_id].node._core.election_timeout_ticks = ELECTION_TICKS  # the shortest of all by chance
        net[node_id].node.doubt_leader(has_ended=True)
    net.tick(2, 3, count=1)
    assert (net[2].node.leader_id, net[3].node.leader_id) == (None, 1)


def test_a_leader_whose_process_seems_to_have_ended_and_that_is_heard_stays_one() -> None:
    net = Net([1, 2, 3])
    leader = net.elect(1)
    for node_id in (2, 3):
        net[node_id].node.doubt_leader(has_ended=True)
    net.tick(1, count=SETTINGS.heartbeat_ticks)
    net.settle()
    net.pass_time(4 * ELECTION_TICKS)
    assert (leader.node.is_leader, leader.node.term) == (True, 1)


def test_a_leader_that_is_doubted_wrongly_and_heard_again_stays_one() -> None:
    net = Net([1, 2, 3])
    leader = net.elect(1)
    net.tick(2, 3, count=SETTINGS.heartbeat_ticks + 1)
    for node_id in (2, 3):
        net[node_id].node.doubt_leader()
    net.tick(1, count=SETTINGS.heartbeat_ticks)
    net.settle()
    net.pass_time(4 * ELECTION_TICKS)
    assert (leader.node.is_leader, leader.node.term) == (True, 1)
