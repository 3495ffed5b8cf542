"""What news is believed, and what a node does when it hears that it is dead."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.membership import Address, Change, Load, NodeIdConflict, Status
from ottla.membership.member import UINT32_MAX, UINT64_MAX
from ottla.membership.roster import MEMBERS_MAX
from ottla.membership.wire import Ack, Alive, Entry, Failed, Gossip, Left, Loaded, Ping, Suspect, Sync, SyncReply
from tests.membership.harness import ME, Node, Peer, peers

ACCUSER = 10


def known(status: Status, incarnation: int = 5) -> tuple[Node, Peer, Peer]:
    """A node that knows of 2 in this status, and has 3 to hear from."""
    node, (two, three) = Node(), peers(2, 3)
    node.meet(two, three)
    node.hear(three, Gossip(), two.alive(incarnation), *bad_news(status, incarnation))
    node.forget()
    assert node.status_of(2) == status
    return node, two, three


def bad_news(status: Status, incarnation: int) -> list[Entry]:
    news: dict[Status, list[Entry]] = {
        Status.ALIVE: [],
        Status.SUSPECT: [Suspect(2, 1, incarnation, ACCUSER)],
        Status.FAILED: [Failed(2, 1, incarnation, ACCUSER)],
        Status.LEFT: [Left(2, 1, incarnation)],
    }
    return news[status]


A, S, F, L = Status.ALIVE, Status.SUSPECT, Status.FAILED, Status.LEFT


@pytest.mark.parametrize(
    ("held", "news", "incarnation", "believed", "change"),
    [
        # of an unsuspected member
        (A, A, 5, A, None),
        (A, A, 6, A, None),
        (A, S, 4, A, None),
        (A, S, 5, S, Change.SUSPECTED),
        (A, S, 6, S, Change.SUSPECTED),
        (A, F, 4, A, None),
        (A, F, 5, F, Change.FAILED),
        (A, L, 4, A, None),
        (A, L, 5, L, Change.LEFT),
        # of a suspect
        (S, A, 5, S, None),
        (S, A, 6, A, Change.ALIVE),
        (S, S, 6, S, None),
        (S, F, 4, S, None),
        (S, F, 5, F, Change.FAILED),
        (S, L, 5, L, Change.LEFT),
        # of one that has failed
        (F, A, 5, F, None),
        (F, A, 6, A, Change.ALIVE),
        (F, S, 5, F, None),
        (F, S, 6, S, Change.SUSPECTED),
        (F, F, 6, F, None),
        (F, L, 5, L, Change.LEFT),
        # of one that has left
        (L, A, 6, L, None),
        (L, S, 6, L, None),
        (L, F, 6, L, None),
        (L, L, 6, L, None),
    ],
)
def test_the_higher_incarnation_counts_and_within_one_the_worse_news(
    held: Status, news: Status, incarnation: int, believed: Status, change: Change | None
) -> None:
    node, two, three = known(held)

    entries = [two.alive(incarnation)] if news == A else bad_news(news, incarnation)
    node.hear(three, Gossip(), *entries)

    assert node.status_of(2) == believed
    assert node.changes(2) == ([change] if change else [])


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.sampled_from([A, S, F]), st.integers(0, 3)), min_size=1, max_size=4), st.booleans())
def test_the_order_of_news_does_not_matter(said: list[tuple[Status, int]], leaves: bool) -> None:
    news = [(status, incarnation) for status, incarnation in said if status != A or incarnation]
    if leaves:
        news.append((L, 3))
    best = max([(0, A), *((incarnation, status) for status, incarnation in news)])
    for order in permutations(news):
        node, (two, three) = Node(), peers(2, 3)
        node.meet(two, three)
        for status, incarnation in order:
            entries = [two.alive(incarnation)] if status == A else bad_news(status, incarnation)
            node.hear(three, Gossip(), *entries)
        expected = L if leaves else best[1]
        assert node.status_of(2) == expected, order


@pytest.mark.parametrize("status", [S, F, L])
def test_bad_news_of_a_stranger_does_not_make_it_a_member(status: Status) -> None:
    node, (three,) = Node(), peers(3)
    node.meet(three)
    node.hear(three, Gossip(), *bad_news(status, 5))
    assert node.status_of(2) is None


@pytest.mark.parametrize("message", [Sync(77), SyncReply(77)])
def test_a_failure_that_another_remembers_makes_only_a_suspect(message: Sync | SyncReply) -> None:
    node, _, three = known(A)
    for number in range(3):
        node.hear(three, type(message)(number), Failed(2, 1, 5, 3))
    assert node.status_of(2) == S


def test_news_is_passed_on_and_old_news_is_not() -> None:
    node, _, three = known(A)
    node.hear(three, Gossip(), Suspect(2, 1, 5, ACCUSER))
    node.run(1_000)
    assert Suspect(2, 1, 5, ACCUSER) in node.said(Suspect)

    node, _, three = known(A)
    node.hear(three, Gossip(), Suspect(2, 1, 4, ACCUSER))
    node.run(100)
    assert node.said(Suspect) == []


# Suspicion


def test_a_suspect_that_says_nothing_fails_in_the_end() -> None:
    node, _, three = known(S)
    node.live_with(20_000, three)
    assert node.changes(2) == [Change.FAILED]
    assert Failed(2, 1, 5, 1) in node.said(Failed)


@pytest.mark.parametrize(("accusers", "after_ms"), [((10, 11, 12, 13), 3_000), ((10, 11, 12), 4_245)])
def test_more_accusers_make_it_fail_sooner(accusers: tuple[int, ...], after_ms: int) -> None:
    node, others = Node(), peers(*range(2, 10))
    node.meet(*others)
    for accuser in accusers:
        node.hear(others[1], Gossip(), Suspect(2, 1, 0, accuser))
    began_ms = node.now_ms
    node.live_with(20_000, *others, until=lambda: Change.FAILED in node.changes(2))
    assert node.now_ms - began_ms == after_ms


def test_a_confirmation_is_passed_on() -> None:
    node, _, three = known(S)
    node.hear(three, Gossip(), Suspect(2, 1, 5, 12))
    node.run(250)
    assert Suspect(2, 1, 5, 12) in node.said(Suspect)


def test_a_suspect_is_told_directly_and_more_than_once() -> None:
    node, two, three = known(S)
    node.live_with(2_800, three)
    calls = [packet for _, to, packet in node.log if to == two.address and isinstance(packet.message, Ping)]
    assert len(calls) >= 5
    assert all(packet.entries[0] == Suspect(2, 1, 5, 1) for packet in calls)


def test_a_node_that_slept_does_not_count_that_time_against_a_suspect() -> None:
    node, two, three = known(S)
    node.run(1_000)
    node.forget()
    node.now_ms += 60_000
    node.take(node.membership.tick(node.now_ms))
    assert node.changes(2) == []
    node.hear(three, Gossip(), two.alive(6))
    assert node.changes(2) == [Change.ALIVE]


# Runs of one node id


def test_a_later_process_on_the_same_host_replaces_the_earlier_at_once() -> None:
    node, _, three = known(A)
    node.hear(three, Gossip(), Peer(2, run_id=2).alive())
    assert node.changes(2) == [Change.RESTARTED]
    node.hear(three, Gossip(), Failed(2, 1, 99, 10))
    assert node.status_of(2) == A


@pytest.mark.parametrize("status", [F, L])
def test_a_later_process_on_any_host_replaces_one_that_is_gone(status: Status) -> None:
    node, _, three = known(status)
    node.hear(three, Gossip(), Peer(2, run_id=2, host="elsewhere").alive())
    assert node.changes(2) == [Change.JOINED]


@pytest.mark.parametrize("status", [A, S])
def test_a_process_on_another_host_does_not_replace_one_that_lives(status: Status) -> None:
    node, two, three = known(status)
    other = Peer(2, run_id=2, host="elsewhere")
    node.hear(three, Gossip(), other.alive())
    node.hear(three, Gossip(), other.alive())

    assert node.status_of(2) == status
    assert node.events == [NodeIdConflict(node_id=2, held_by=two.address, claimed_by=other.address)]


@pytest.mark.parametrize("status", [A, S, F, L])
def test_news_of_an_earlier_process_is_old(status: Status) -> None:
    node, (three,) = Node(), peers(3)
    later, earlier = Peer(2, run_id=9), Peer(2, run_id=8)
    node.meet(three, later)
    node.hear(three, Gossip(), *([earlier.alive(99)] if status == A else []), Failed(2, 8, 99, 3), Left(2, 8, 99))
    member = node.membership.member(2)
    assert member is not None
    assert (member.run_id, member.status, node.events) == (9, A, [])


# Of this node itself


@pytest.mark.parametrize("news", [Suspect, Failed])
def test_a_node_denies_that_it_is_dead_with_a_higher_incarnation(news: type[Suspect | Failed]) -> None:
    node, (two,) = Node(), peers(2)
    node.meet(two)
    run_id = node.membership.me.run_id

    node.hear(two, Gossip(), news(1, run_id, 0, 2))
    node.run(250)

    assert node.membership.me.incarnation == 1
    assert Alive(1, run_id, 1, ME, Address("me", 9092), "r0") in node.said(Alive)
    assert node.membership.health_score == 1


def test_what_was_denied_already_needs_no_higher_incarnation_but_is_answered() -> None:
    node, (two,) = Node(), peers(2)
    node.meet(two)
    accusation = Suspect(1, node.membership.me.run_id, 0, 2)
    node.hear(two, Gossip(), accusation)
    node.run(3_000)
    node.forget()

    node.hear(two, Ping(1, 1), accusation)

    assert node.membership.me.incarnation == 1
    assert [entry.incarnation for entry in node.said(Alive)] == [1]


def test_a_node_says_that_it_is_alive_in_the_answer_to_the_probe_that_accuses_it() -> None:
    node, (two,) = Node(), peers(2)
    node.meet(two)
    node.hear(two, Ping(9, 1), Suspect(1, node.membership.me.run_id, 0, 2))
    answers = [packet for _, _, packet in node.log if isinstance(packet.message, Ack)]
    assert next(entry.incarnation for entry in answers[0].entries if isinstance(entry, Alive)) == 1


def test_a_node_whose_clock_was_set_back_takes_a_higher_number_than_its_earlier_process() -> None:
    node, (two,) = Node(started_ms=1_000), peers(2)
    node.meet(two)
    earlier = Alive(1, 2**60, 7, ME, ME, None)
    node.hear(two, SyncReply(1), earlier)
    node.run(250)
    assert (node.membership.me.run_id, node.membership.me.incarnation) == (2**60 + 1, 0)
    assert {packet.run_id for _, _, packet in node.log} == {2**60 + 1}


@pytest.mark.parametrize("news", [Failed(1, 2**60, 3, 2), Left(1, 2**60, 3)])
def test_an_earlier_process_that_is_gone_is_overtaken_wherever_it_was(news: Entry) -> None:
    node, (two,) = Node(started_ms=1_000), peers(2)
    node.meet(two)
    node.hear(two, Gossip(), news)
    assert node.membership.me.run_id == 2**60 + 1


def test_news_that_this_very_process_has_left_makes_it_a_new_one() -> None:
    node, (two,) = Node(), peers(2)
    node.meet(two)
    run_id = node.membership.me.run_id
    node.hear(two, Gossip(), Left(1, run_id, 0))
    assert node.membership.me.run_id == run_id + 1


def test_another_living_node_of_this_ones_id_is_reported() -> None:
    node, (two,) = Node(), peers(2)
    node.meet(two)
    other = Peer(1, run_id=2**60, host="elsewhere")
    node.hear(two, Gossip(), other.alive())
    node.hear(two, Gossip(), other.alive(4))
    assert node.events == [NodeIdConflict(node_id=1, held_by=ME, claimed_by=other.address)]
    assert node.membership.me.run_id < 2**60


def test_numbers_at_their_limit_do_no_harm() -> None:
    node, (two,) = Node(), peers(2)
    node.meet(two)
    node.hear(two, Gossip(), Suspect(1, node.membership.me.run_id, UINT32_MAX, 2))
    node.hear(two, Gossip(), Suspect(1, node.membership.me.run_id, UINT32_MAX, 2))
    node.hear(two, Gossip(), Left(1, UINT64_MAX, UINT32_MAX))
    node.run(2_000)
    assert node.membership.me.run_id == UINT64_MAX


# Load, bounds, forgetting


def test_newer_load_figures_replace_older_ones() -> None:
    node, _, three = known(A)
    for version, partitions in ((2, 20), (1, 10), (2, 99), (3, 30)):
        node.hear(three, Gossip(), Loaded(2, 1, version, Load(partitions=partitions)))
    member = node.membership.member(2)
    assert member is not None
    assert (member.load_version, member.load) == (3, Load(partitions=30))
    assert node.changes(2) == [Change.UPDATED, Change.UPDATED]


def test_load_figures_survive_a_suspicion() -> None:
    node, two, three = known(A)
    node.hear(three, Gossip(), Loaded(2, 1, 1, Load(leaders=4)), Suspect(2, 1, 5, 3), two.alive(6))
    member = node.membership.member(2)
    assert member is not None
    assert (member.status, member.load) == (A, Load(leaders=4))


def test_a_member_that_moved_is_told_of() -> None:
    node, two, three = known(A)
    node.hear(three, Gossip(), two.alive(6)._replace(kafka=Address("new", 9093)))
    assert node.changes(2) == [Change.UPDATED]


@pytest.mark.parametrize("status", [F, L])
def test_one_that_is_gone_is_forgotten_after_a_while_and_not_before(status: Status) -> None:
    node, _, three = known(status)
    node.live_with(1_000, three)
    node.now_ms += node.config.forget_failed_ms - 1_001
    node.take(node.membership.tick(node.now_ms))
    assert node.status_of(2) == status
    node.now_ms += 1
    node.take(node.membership.tick(node.now_ms))
    assert node.status_of(2) is None
    node.hear(three, Gossip(), Peer(2, run_id=2).alive())
    assert node.status_of(2) == A


def test_the_table_does_not_grow_without_limit() -> None:
    node, (three,) = Node(), peers(3)
    node.meet(three)
    for first in range(100, 100 + 2 * MEMBERS_MAX, 20):
        node.hear(three, Gossip(), *(Peer(node_id).alive() for node_id in range(first, first + 20)))
    assert len(node.membership.members()) == MEMBERS_MAX + 1
