"""The bookkeeping of members: what is counted along the way equals what counting anew would give."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import BrokerError, ErrorCode, InvariantError
from ottla.groups.roster import Member, Protocols, Roster
from ottla.groups.timers import Timer
from ottla.replicated import Token

NAMES = ("range", "sticky", "other")


def member(member_id: str, *protocols: str, instance_id: str | None = None, rebalance_timeout_ms: int = 1) -> Member:
    return Member(
        member_id=member_id,
        instance_id=instance_id,
        client_id="c",
        client_host="/h",
        rebalance_timeout_ms=rebalance_timeout_ms,
        session_timeout_ms=1,
        protocols=told(protocols or ("range",)),
        session=Timer(lambda now_ms, effects: None),
    )


def told(names: tuple[str, ...]) -> Protocols:
    return tuple((name, name.encode()) for name in names)


changes = st.lists(
    st.tuples(
        st.sampled_from(["add", "remove", "change", "join", "answer"]),
        st.integers(0, 4),
        st.lists(st.sampled_from(NAMES), min_size=1, unique=True).map(tuple),
    ),
    max_size=40,
)


@given(changes)
def test_counts_hold_whatever_members_do(steps: list[tuple[str, int, tuple[str, ...]]]) -> None:
    roster = Roster()
    for step, index, names in steps:
        known = roster.get(str(index))
        if known is None and step == "add":
            roster.add(member(str(index), *names))
        elif known is not None:
            act(roster, step, known, names)

        members = list(roster)
        assert roster.joined == sum(each.join_token is not None for each in members)
        assert roster.all_joined == all(each.join_token is not None for each in members)
        assert roster.leader_id in [each.member_id for each in members] or not members
        for name in NAMES:
            everybody = all(name in dict(each.protocols) for each in members)
            assert roster.supports([name]) == everybody


def act(roster: Roster, step: str, known: Member, names: tuple[str, ...]) -> None:
    if step == "remove":
        roster.remove(known)
    elif step == "change":
        roster.set_protocols(known, told(names))
    elif step == "join":
        roster.wait_for_join(known, Token())
    elif step == "answer":
        roster.take_join_token(known)


def test_names_of_protocols_that_nobody_knows_any_more_are_forgotten() -> None:
    roster = Roster()
    for index in range(1_000):
        passing = member("m", f"protocol-{index}")
        roster.add(passing)
        roster.remove(passing)

    assert len(roster._supporters) == 0


def test_most_votes_win_and_the_first_vote_breaks_a_tie() -> None:
    roster = Roster()
    roster.add(member("a", "sticky", "range"))
    roster.add(member("b", "range", "sticky"))
    assert roster.select_protocol() == "sticky"

    roster.add(member("c", "range", "sticky", "other"))
    assert roster.select_protocol() == "range"


def test_a_leader_that_has_not_joined_gives_way_to_one_that_has() -> None:
    roster = Roster()
    a, b = member("a"), member("b")
    roster.add(a)
    roster.add(b)
    assert not roster.elect_joined_leader()

    roster.wait_for_join(b, Token())

    assert roster.elect_joined_leader()
    assert roster.leader_id == "b"


def test_a_renamed_member_keeps_its_leadership_and_its_instance() -> None:
    roster = Roster()
    leader = member("old", instance_id="i")
    roster.add(leader)

    roster.rename(leader, "new")

    assert roster.leader_id == "new"
    assert roster.static_member("i") is leader
    assert "old" not in roster
    with pytest.raises(BrokerError) as failure:
        roster.require("old", "i")
    assert failure.value.code is ErrorCode.FENCED_INSTANCE_ID


def test_the_slowest_member_sets_the_time_that_a_rebalance_may_take() -> None:
    roster = Roster()
    assert roster.rebalance_timeout_ms() == 0
    roster.add(member("a", rebalance_timeout_ms=5))
    roster.add(member("b", rebalance_timeout_ms=9))

    assert roster.rebalance_timeout_ms() == 9


def test_one_id_is_one_member() -> None:
    roster = Roster()
    roster.add(member("a"))

    with pytest.raises(InvariantError):
        roster.add(member("a"))
