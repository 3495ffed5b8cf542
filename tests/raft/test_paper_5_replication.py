"""The paper's sections 5.3 (log replication), 5.4 (safety), 5.5 (crashes) and 5.6 (timing)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.errors import BrokerError, ErrorCode
from ottla.raft.entry import Entry, EntryId, EntryKind, HardState
from ottla.raft.messages import Append, AppendRejected, AppendReply, Heartbeat, HeartbeatReply
from ottla.raft.voters import VoterSet
from tests.raft.host import Host, MemoryDisk
from tests.raft.net import ELECTION_TICKS, SETTINGS, Latest, Net
from tests.raft.test_paper_5_elections import elected, host_with, sent_to


def append(previous: tuple[int, int], *terms: int, term: int, commit: int = 0) -> Append:
    index = previous[0]
    entries = [Entry(index=at, term=each) for at, each in enumerate(terms, index + 1)]
    return Append(sender=2, term=term, previous=EntryId(*previous), commit=commit, entries=entries)


def terms_of(host: Host) -> list[int]:
    return [entry.term for entry in host.disk.entries]


# 5.3: a leader


def test_a_proposal_is_sent_to_all_and_committed_when_a_majority_has_it() -> None:
    net = Net([1, 2, 3, 4, 5])
    leader = net.elect(1)
    leader.propose(b"a")
    sent = leader.carry_out()
    expected = Append(sender=1, term=1, previous=EntryId(1, 1), commit=1, entries=[Entry(index=2, term=1, data=b"a")])
    assert [(each.to, each.message) for each in sent] == [(to, expected) for to in (2, 3, 4, 5)]
    leader.step(AppendReply(sender=2, term=1, match_index=2))
    assert leader.node.commit == 1
    leader.step(AppendReply(sender=2, term=1, match_index=2))
    assert leader.node.commit == 1, "the same node twice is no majority"
    leader.step(AppendReply(sender=3, term=1, match_index=2))
    assert leader.node.commit == 2
    assert leader.state == [b"a"]


def test_the_leaders_own_entry_counts_when_it_is_on_disk() -> None:
    net = Net([1, 2, 3])
    leader = net.elect(1)
    leader.propose(b"a")
    ready = leader.node.ready()
    assert ready is not None
    leader.node.step(AppendReply(sender=2, term=1, match_index=2))
    assert leader.node.commit == 1, "node 2 has it, and nobody else on disk"
    leader.persist(ready)
    leader.apply(ready)
    leader.node.advance(ready)
    assert leader.node.commit == 2


def test_a_majority_may_be_there_before_the_leaders_own_disk() -> None:
    net = Net([1, 2, 3])
    leader = net.elect(1)
    leader.propose(b"a")
    ready = leader.node.ready()
    assert ready is not None
    for sender in (2, 3):
        leader.node.step(AppendReply(sender=sender, term=1, match_index=2))
    assert leader.node.commit == 2
    leader.persist(ready)
    leader.apply(ready)
    leader.node.advance(ready)
    leader.carry_out()
    assert leader.state == [b"a"]


def test_followers_hear_what_is_committed_and_apply_it() -> None:
    net = Net([1, 2, 3])
    net.elect(1).propose(b"a", b"b")
    net.settle()
    assert [host.state for host in net.hosts.values()] == [[b"a", b"b"]] * 3


def test_a_proposal_tells_its_indexes_and_comes_out_there() -> None:
    net = Net([1, 2, 3])
    leader = net.elect(1)
    assert leader.propose(b"a", b"b") == range(2, 4)
    assert leader.propose(b"c") == range(4, 5)
    net.settle()
    assert [(entry.index, entry.data) for entry in leader.committed[1:]] == [(2, b"a"), (3, b"b"), (4, b"c")]


def test_only_the_leader_takes_proposals() -> None:
    net = Net([1, 2, 3])
    net.elect(1)
    with pytest.raises(BrokerError, match="the leader is 1") as error:
        net[2].propose(b"a")
    assert error.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_what_gets_lost_is_sent_again() -> None:
    net = Net([1, 2, 3])
    leader = net.elect(1)
    for data in (b"a", b"b", b"c"):
        leader.propose(data)
        net.carry_out(1)
        net.lose()
    net.pass_time(4)
    assert [host.state for host in net.hosts.values()] == [[b"a", b"b", b"c"]] * 3


def test_a_follower_that_crashed_gets_what_it_missed() -> None:
    net = Net([1, 2, 3])
    leader = net.elect(1)
    net.crash(3)
    leader.propose(b"a")
    net.settle()
    assert leader.state == [b"a"]
    net.restart(3)
    net.pass_time(4)
    assert net[3].state == [b"a"]


def test_large_backlogs_travel_in_messages_of_bounded_size() -> None:
    net = Net([1, 2, 3], settings=replace(SETTINGS, message_bytes_max=300, inflight_messages_max=2))
    leader = net.elect(1)
    net.cut_off = {3}
    leader.propose(*[bytes(100)] * 20, bytes(1000))
    net.settle()
    net.cut_off = set()
    sizes: list[int] = []
    net.on_send = lambda each: (
        sizes.append(sum(entry.size_bytes for entry in each.message.entries))
        if isinstance(each.message, Append) and each.to == 3
        else None
    )
    net.pass_time(4)
    assert len(net[3].state) == 21
    assert sorted(sizes)[-1] > 1000, "an entry that is larger than a message travels alone"
    assert all(size <= 300 for size in sorted(sizes)[:-1])


def test_a_silent_follower_is_sent_no_more_than_its_window() -> None:
    settings = replace(SETTINGS, inflight_messages_max=3)
    net = Net([1, 2, 3], settings=settings)
    leader = net.elect(1)
    net.cut_off = {3}
    sent: list[Append] = []
    net.on_send = lambda each: (
        sent.append(each.message)
        if isinstance(each.message, Append) and each.to == 3 and each.message.entries
        else None
    )
    for number in range(10):
        leader.propose(b"%d" % number)
        net.settle()
    assert len(sent) == 3


def test_too_much_that_waits_for_a_majority_is_refused() -> None:
    net = Net([1, 2, 3], settings=replace(SETTINGS, uncommitted_bytes_max=1000))
    leader = net.elect(1)
    leader.propose(bytes(5000))
    with pytest.raises(BrokerError) as error:
        leader.propose(b"a")
    assert error.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    net.settle()
    leader.propose(b"a")
    net.settle()
    assert leader.state[-1] == b"a"


# 5.3: a follower


def test_entries_are_acknowledged_when_they_are_on_disk() -> None:
    host = host_with(1)
    host.node.step(append((1, 1), 1, 1, term=1))
    ready = host.node.ready()
    assert ready is not None
    assert [entry.index for entry in ready.entries] == [2, 3]
    assert [each.message for each in ready.messages] == [AppendReply(sender=1, term=1, match_index=3)]


@pytest.mark.parametrize(
    ("own", "previous", "hint"),
    [
        ((1, 1), (5, 2), EntryId(2, 1)),
        ((1, 1, 1), (3, 2), EntryId(3, 1)),
        ((1, 3, 3), (3, 2), EntryId(1, 1)),
        ((4, 4), (2, 3), EntryId(0, 0)),
    ],
)
def test_entries_that_do_not_continue_the_log_are_rejected_with_a_hint(
    own: tuple[int, ...], previous: tuple[int, int], hint: EntryId
) -> None:
    host = host_with(*own)
    sent = host.step(append(previous, 9, term=9))
    assert sent_to(sent, 2) == [AppendRejected(sender=1, term=9, rejected_index=previous[0], hint=hint)]
    assert terms_of(host) == list(own)


@pytest.mark.parametrize(
    ("own", "previous", "sent", "after"),
    [
        ((), (0, 0), (1,), [1]),
        ((1, 2), (2, 2), (3, 4), [1, 2, 3, 4]),
        ((1, 2), (1, 1), (3,), [1, 3]),
        ((1, 2, 2), (1, 1), (2,), [1, 2, 2]),
        ((1, 2, 2), (0, 0), (1, 3), [1, 3]),
        ((1, 2, 2), (2, 2), (), [1, 2, 2]),
    ],
)
def test_what_disagrees_with_the_leader_is_replaced_and_what_agrees_stays(
    own: tuple[int, ...], previous: tuple[int, int], sent: tuple[int, ...], after: list[int]
) -> None:
    host = host_with(*own)
    replies = sent_to(host.step(append(previous, *sent, term=9)), 2)
    assert terms_of(host) == after
    assert replies == [AppendReply(sender=1, term=9, match_index=previous[0] + len(sent))]


def test_the_commit_index_goes_no_further_than_what_is_known_to_agree() -> None:
    """Entries behind the leader's may be of another leader."""
    host = host_with(1, 1, 1)
    host.step(append((1, 1), term=2, commit=3))
    assert host.node.commit == 1
    host.step(append((1, 1), 1, term=2, commit=3))
    assert host.node.commit == 2


def test_an_old_message_about_what_is_committed_is_acknowledged() -> None:
    host = host_with(1, 1, 1)
    host.step(append((3, 1), term=1, commit=3))
    sent = host.step(append((1, 1), 1, term=1))
    assert sent_to(sent, 2) == [AppendReply(sender=1, term=1, match_index=3)]


def test_a_heartbeat_tells_what_is_committed_and_is_answered() -> None:
    host = host_with(1, 1)
    sent = host.step(Heartbeat(sender=2, term=1, commit=EntryId(2, 1), match_index=2, round=7))
    assert sent_to(sent, 2) == [HeartbeatReply(sender=1, term=1, round=7)]
    assert host.node.commit == 2


@pytest.mark.parametrize("commit", [EntryId(3, 2), EntryId(2, 2)])
def test_a_heartbeat_commits_nothing_that_is_not_the_leaders(commit: EntryId) -> None:
    host = host_with(1, 1, term=2)
    host.step(Heartbeat(sender=2, term=2, commit=commit, match_index=0, round=0))
    assert host.node.commit == 0


# Figure 7: whatever a new leader finds, all logs become like its own

FIGURE_7_LEADER = (1, 1, 1, 4, 4, 5, 5, 6, 6, 6)
FIGURE_7 = {
    "a, entries are missing": (1, 1, 1, 4, 4, 5, 5, 6, 6),
    "b, many are": (1, 1, 1, 4),
    "c, one is too many": (1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 6),
    "d, of a later term": (1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 7, 7),
    "e, both": (1, 1, 1, 4, 4, 4, 4),
    "f, of earlier terms": (1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3),
}


def two_logs(leader: tuple[int, ...], follower: tuple[int, ...]) -> Net:
    """Node 1 has the one, node 2 the other, and node 3 votes for whoever asks."""
    net = Net([1, 2, 3])
    term = max(leader + follower, default=0)
    for node_id, terms in ((1, leader), (2, follower)):
        if terms:
            net[node_id].disk.write([Entry(index=index, term=each) for index, each in enumerate(terms, 1)])
        net[node_id].disk.hard_state = HardState(term=term)
        net.restart(node_id)
    net[3].disk.hard_state = HardState(term=term)
    net.restart(3)
    return net


@pytest.mark.parametrize("follower", FIGURE_7.values(), ids=FIGURE_7)
def test_a_followers_log_becomes_the_leaders(follower: tuple[int, ...]) -> None:
    net = two_logs(FIGURE_7_LEADER, follower)
    net.elect(1)
    net.settle()
    assert terms_of(net[2]) == [*FIGURE_7_LEADER, net[1].node.term]


logs = st.lists(st.integers(1, 5), max_size=12).map(lambda terms: tuple(sorted(terms)))


@settings(deadline=None)
@given(logs, logs)
def test_the_place_where_two_logs_agree_is_found_with_one_question_per_term(
    leader: tuple[int, ...], follower: tuple[int, ...]
) -> None:
    agree = next((at for at, (a, b) in enumerate(zip(leader, follower, strict=False)) if a != b), None)
    if agree is not None:  # an index and a term name one entry: after the first difference nothing may be the same
        follower = follower[:agree] + tuple(9 for _ in follower[agree:])
    net = two_logs(leader, follower)
    questions: list[AppendRejected] = []
    net.on_send = lambda each: questions.append(each.message) if isinstance(each.message, AppendRejected) else None
    net.cut_off = {2}
    net.elect(1)
    net.settle()
    net.cut_off = set()
    net.pass_time(6)
    assert terms_of(net[2]) == terms_of(net[1])
    assert len([each for each in questions if each.sender == 2]) <= len(set(leader)) + 2


# 5.4.2: entries of earlier terms


@pytest.mark.parametrize(("acknowledged", "committed"), [(1, 0), (2, 0), (3, 3)])
def test_only_entries_of_its_own_term_are_committed_by_counting(acknowledged: int, committed: int) -> None:
    leader = elected(host_with(1, 2))
    leader.step(AppendReply(sender=2, term=3, match_index=acknowledged))
    assert leader.node.commit == committed


# 5.5 and 5.6: crashes, and messages that come twice or late


def test_a_message_that_comes_twice_changes_nothing() -> None:
    host = host_with(1)
    message = append((1, 1), 2, 2, term=2, commit=2)
    host.step(message)
    before = (host.disk.hard_state, list(host.disk.entries), host.node.commit)
    host.step(message, message)
    assert (host.disk.hard_state, list(host.disk.entries), host.node.commit) == before


def test_an_earlier_message_that_comes_late_does_not_cut_what_followed() -> None:
    host = host_with(1)
    host.step(append((1, 1), 2, 2, 2, term=2))
    host.step(append((1, 1), 2, term=2))
    assert terms_of(host) == [1, 2, 2, 2]


def test_what_is_committed_is_there_after_all_nodes_have_crashed() -> None:
    net = Net([1, 2, 3])
    net.elect(1).propose(b"a", b"b")
    net.settle()
    for node_id in net.hosts:
        net.restart(node_id)
    assert net[2].state == []
    net.elect(2)
    net.settle()
    assert [host.state for host in net.hosts.values()] == [[b"a", b"b"]] * 3


def test_a_leader_alone_commits_nothing_and_gives_up() -> None:
    net = Net([1, 2, 3])
    leader = net.elect(1)
    net.cut_off = {1}
    leader.propose(b"a")
    net.pass_time(2 * ELECTION_TICKS)
    assert leader.node.commit == 1
    assert not leader.node.is_leader


def test_a_cluster_goes_on_as_long_as_a_majority_is_there() -> None:
    net = Net([1, 2, 3, 4, 5])
    net.elect(1)
    net.crash(4)
    net.crash(5)
    net.leader.propose(b"a")
    net.settle()
    assert net.leader.state == [b"a"]
    net.crash(3)
    net.leader.propose(b"b")
    net.settle()
    assert net.leader.state == [b"a"]
    net.restart(5)
    net.pass_time(6)
    assert net.leader.state == [b"a", b"b"]


def test_a_follower_whose_write_is_slow_acknowledges_only_what_is_written() -> None:
    """While entries 2 and 3 are being written, another leader replaces 3."""
    disk = MemoryDisk(VoterSet.of([1, 2, 3]))
    disk.write([Entry(index=1, term=1)])
    disk.hard_state = HardState(term=1)
    host = Host(node_id=1, disk=disk, settings=SETTINGS, make_random=Latest)
    host.node.step(append((1, 1), 1, 1, term=1))
    ready = host.node.ready()
    assert ready is not None
    replaced = Append(sender=3, term=2, previous=EntryId(2, 1), commit=0, entries=[Entry(index=3, term=2)])
    host.node.step(replaced)
    host.persist(ready)
    host.node.advance(ready)
    assert host.node._core.log.stable_index == 2
    host.carry_out()
    assert terms_of(host) == [1, 1, 2]


def test_the_first_entry_of_a_term_says_nothing_to_the_state_machine() -> None:
    net = Net([1, 2, 3])
    net.elect(1)
    net.crash(1)
    leader = net.elect(2)
    assert [entry.kind for entry in leader.committed] == [EntryKind.VOTERS, EntryKind.NOOP]
    assert leader.state == []
