"""How a node is driven: one Ready at a time, in order, and what it says of itself."""

from __future__ import annotations

import pytest

from ottla.errors import BrokerError, ErrorCode, InvariantError
from ottla.raft.entry import Entry, EntryId, HardState
from ottla.raft.messages import Append, AppendReply, Attach, Heartbeat, HeartbeatReply
from ottla.raft.progress import Pace
from ottla.raft.ready import Leadership, RoleName
from ottla.raft.voters import Voter
from tests.raft.net import ELECTION_TICKS, Net
from tests.raft.test_paper_5_elections import elected, heartbeat, host_with
from tests.raft.test_paper_5_replication import append


def test_nothing_to_do_is_nothing() -> None:
    host = host_with(1, 2)
    assert host.node.ready() is None
    host.node.tick()
    assert host.node.ready() is None


def test_a_ready_must_be_carried_out_before_the_next() -> None:
    host = host_with(1)
    host.node.step(heartbeat(1))
    ready = host.node.ready()
    assert ready is not None
    with pytest.raises(InvariantError, match="has not been carried out"):
        host.node.ready()
    host.node.advance(ready)
    with pytest.raises(InvariantError, match="another Ready"):
        host.node.advance(ready)


def test_each_thing_is_handed_out_once() -> None:
    host = host_with(1)
    host.node.step(append((1, 1), 2, term=2, commit=2))
    ready = host.node.ready()
    assert ready is not None
    assert ready.leadership == Leadership(term=2, leader_id=2, role=RoleName.FOLLOWER, is_voter=True)
    assert ready.hard_state == HardState(term=2)
    assert ready.entries == (Entry(index=2, term=2),)
    assert [entry.index for entry in ready.committed] == [1, 2]
    assert len(ready.messages) == 1
    host.persist(ready)
    host.node.advance(ready)
    assert host.node.ready() is None


def test_what_comes_while_a_ready_is_carried_out_is_in_the_next() -> None:
    host = host_with(1)
    host.node.step(append((1, 1), 2, term=2))
    first = host.node.ready()
    assert first is not None
    host.node.step(append((2, 2), 2, term=2, commit=2))
    host.persist(first)
    host.node.advance(first)
    second = host.node.ready()
    assert second is not None
    assert [entry.index for entry in second.entries] == [3]
    assert second.hard_state is None
    assert [each.message for each in second.messages] == [AppendReply(sender=1, term=2, match_index=3)]


def test_proposals_of_one_turn_travel_in_one_message() -> None:
    leader = elected(host_with())
    for sender in (2, 3):
        leader.step(AppendReply(sender=sender, term=1, match_index=1))
    leader.propose(b"a")
    leader.propose(b"b")
    sent = leader.carry_out()
    assert [each.to for each in sent] == [2, 3]


def test_a_message_from_itself_is_a_bug() -> None:
    with pytest.raises(InvariantError, match="from itself"):
        host_with(node_id=1).node.step(Attach(sender=1, term=0))


def test_a_proposal_of_nothing_is_a_bug() -> None:
    with pytest.raises(InvariantError):
        elected(host_with()).propose()


def test_a_log_that_is_newer_than_the_hard_state_is_a_bug() -> None:
    with pytest.raises(InvariantError):
        host_with(3, term=2)


@pytest.mark.parametrize(
    "ask",
    [
        lambda node: node.propose([b"a"]),
        lambda node: node.add_voter(Voter(4)),
        lambda node: node.remove_voter(2),
        lambda node: node.transfer_leadership(),
    ],
)
def test_who_does_not_lead_refuses(ask: object) -> None:
    assert callable(ask)
    with pytest.raises(BrokerError) as error:
        ask(host_with().node)
    assert error.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_what_only_a_leader_can_do_is_no_error_elsewhere() -> None:
    node = host_with().node
    node.observe([2])
    node.snapshot_failed(2)
    assert node.ready() is None


def test_the_leader_describes_the_quorum() -> None:
    net = Net([1, 2, 3], observers=[4])
    net[4].node.set_contacts([1])
    net.elect(1)
    net.pass_time(1)
    net.cut_off = {3}
    net[1].propose(b"a")
    net.settle()
    net.pass_time(1)
    status = net[1].node.status()
    assert status.leadership == Leadership(term=1, leader_id=1, role=RoleName.LEADER, is_voter=True)
    assert (status.commit, status.last_index, status.voters) == (2, 2, (1, 2, 3))
    assert [(each.node_id, each.is_voter, each.match_index) for each in status.replicas] == [
        (1, True, 2),
        (2, True, 2),
        (3, True, 1),
        (4, False, 2),
    ]
    assert status.replicas[0].pace is None
    assert status.replicas[1].pace is Pace.REPLICATE
    assert status.replicas[2].ticks_since_caught_up == 1
    assert net[2].node.status().replicas == ()


def test_a_voter_gets_its_directory_while_it_votes() -> None:
    net = Net([1, 2, 3])
    net.elect(1)
    home = bytes(range(16))
    net[1].node.add_voter(Voter(2, home))
    net.settle()
    assert net[3].node.voters.find(2) == Voter(2, home)
    assert net[3].node.voters.ids == (1, 2, 3)
    assert not net[3].node.voters.admits(2, bytes(reversed(home)))


def test_a_node_that_lost_its_log_says_so_and_stops() -> None:
    host = host_with(1)
    with pytest.raises(InvariantError, match="lost its disk"):
        host.node.step(Heartbeat(sender=2, term=1, commit=EntryId(1, 1), match_index=7, round=0))


def test_a_leader_that_nobody_answers_steps_down_after_an_election_time_out() -> None:
    leader = elected(host_with())
    leader.tick(ELECTION_TICKS - 1)
    assert leader.node.is_leader
    leader.tick()
    assert not leader.node.is_leader
    assert leader.leaderships[-1] == Leadership(term=1, leader_id=None, role=RoleName.FOLLOWER, is_voter=True)


def test_answers_of_those_it_does_not_know_do_not_matter_to_a_leader() -> None:
    leader = elected(host_with())
    leader.step(AppendReply(sender=8, term=1, match_index=1), HeartbeatReply(sender=9, term=1, round=0))
    assert leader.node.commit == 0


# A disk that is slow


def test_a_leader_sends_entries_while_it_writes_them_itself() -> None:
    leader = elected(host_with())
    for sender in (2, 3):
        leader.step(AppendReply(sender=sender, term=1, match_index=1))
    leader.propose(b"a")
    early = leader.node.early_messages()
    assert [(each.to, type(each.message)) for each in early] == [(2, Append), (3, Append)]
    ready = leader.node.ready()
    assert ready is not None
    assert ready.messages == ()
    assert [entry.data for entry in ready.entries] == [b"a"]


def test_a_leader_whose_disk_hangs_goes_on_with_its_followers() -> None:
    leader = elected(host_with())
    for sender in (2, 3):
        leader.step(AppendReply(sender=sender, term=1, match_index=1))
    leader.propose(b"a")
    hanging = leader.node.ready()
    assert hanging is not None
    for _ in range(3 * ELECTION_TICKS):
        leader.node.tick()
        early = leader.node.early_messages()
        for sender in {each.to for each in early if isinstance(each.message, Heartbeat)}:
            leader.node.step(HeartbeatReply(sender=sender, term=1, round=0))
            leader.node.step(AppendReply(sender=sender, term=1, match_index=leader.node._core.log.last_index))
    assert leader.node.is_leader
    leader.node.propose([b"b"])
    assert [type(each.message) for each in leader.node.early_messages()] == [Append, Append]
    assert leader.node.commit == 2


def test_a_follower_whose_disk_hangs_answers_heartbeats_and_acknowledges_nothing() -> None:
    host = host_with(1)
    host.step(heartbeat(1))
    host.node.step(append((1, 1), 1, term=1))
    hanging = host.node.ready()
    assert hanging is not None
    host.node.step(append((2, 1), 1, term=1))
    host.node.step(heartbeat(1))
    assert [type(each.message) for each in host.node.early_messages()] == [HeartbeatReply]


def test_nothing_of_a_term_is_said_before_the_term_is_on_disk() -> None:
    host = host_with(1)
    host.node.step(heartbeat(7))
    assert host.node.early_messages() == []
    ready = host.node.ready()
    assert ready is not None
    assert [type(each.message) for each in ready.messages] == [HeartbeatReply]


def test_a_candidate_whose_disk_hangs_does_not_campaign_again_before_it_has_asked_anybody() -> None:
    host = host_with(voters=1)
    host.node.tick()
    hanging = host.node.ready()
    assert hanging is not None
    for _ in range(5 * ELECTION_TICKS):
        host.node.tick()
    assert host.node.term == 1
    host.persist(hanging)
    host.node.advance(hanging)
    assert host.node.is_leader


def test_a_node_that_observes_does_not_answer_for_what_it_had_acknowledged_before_its_disk_was_lost() -> None:
    observer = host_with(node_id=4)
    observer.node.set_contacts([2])
    sent = []

    for _ in range(2 * ELECTION_TICKS):
        sent += observer.step(Heartbeat(sender=2, term=1, commit=EntryId(1, 1), match_index=7, round=0))
        sent += observer.tick()

    assert observer.node.leader_id is None
    assert {type(each.message) for each in sent} == {Attach}


def test_quiet_ticks_may_be_told_of_later() -> None:
    """One follower is told of every tick, the other of all at once: they campaign at the same one."""
    told, skipping = host_with(1), host_with(1)
    for host in (told, skipping):
        host.step(heartbeat(sender=2, term=1))
    quiet = skipping.node.quiet_ticks
    assert quiet >= ELECTION_TICKS - 1

    told.tick(quiet)
    skipping.node.skip(quiet)

    assert told.node.leadership.role == skipping.node.leadership.role == RoleName.FOLLOWER
    for host in (told, skipping):
        host.tick()
        assert host.node.leadership.role == RoleName.PRE_CANDIDATE


def test_hearing_from_the_leader_makes_the_ticks_before_it_of_no_account() -> None:
    host = host_with(1)
    host.step(heartbeat(sender=2, term=1))
    quiet = host.node.quiet_ticks
    host.node.skip(quiet - 1)

    host.step(heartbeat(sender=2, term=1))

    assert host.node.quiet_ticks == quiet


def test_a_leader_skips_no_heartbeat() -> None:
    leader = elected(host_with())
    sent = []
    for _ in range(3):
        leader.node.skip(leader.node.quiet_ticks)
        sent += leader.tick()

    beats = [each for each in sent if isinstance(each.message, Heartbeat)]
    assert len(beats) == 3 * 2, "each time one for each follower"


def test_who_follows_nobody_has_no_quiet_ticks() -> None:
    assert host_with().node.quiet_ticks == 0


def test_more_than_the_quiet_ticks_can_not_be_skipped() -> None:
    host = host_with()
    with pytest.raises(InvariantError, match="quiet"):
        host.node.skip(1)
