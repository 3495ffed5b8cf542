"""Assignors: complete, deterministic, balanced; the sticky ones move little."""

from collections import Counter
from collections.abc import Mapping
from itertools import permutations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ottla.groups.assignment import (
    ASSIGNORS,
    Assignment,
    Assignor,
    Subscription,
    cooperative_sticky_assignor,
    range_assignor,
    round_robin_assignor,
    sticky_assignor,
)
from ottla.types import TopicPartition

TOPICS = ("t", "u", "v")

counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 12), min_size=1)
wishes = st.lists(st.sampled_from((*TOPICS, "missing")), unique=True, max_size=4)
owned = st.lists(st.builds(TopicPartition, st.sampled_from((*TOPICS, "gone")), st.integers(-1, 14)), max_size=12)
memberships = st.dictionaries(
    st.sampled_from("abcdefgh"),
    st.builds(Subscription, topics=wishes, owned=owned, generation=st.integers(-1, 2)),
    min_size=1,
)


def everything(given_out: Assignment) -> Counter[TopicPartition]:
    return Counter(partition for partitions in given_out.values() for partition in partitions)


def wanted(members: Mapping[str, Subscription], partitions: Mapping[str, int]) -> set[TopicPartition]:
    topics = {topic for member in members.values() for topic in member.topics}
    return {TopicPartition(topic, at) for topic in topics for at in range(partitions.get(topic, 0))}


def tp(*names: str) -> list[TopicPartition]:
    return [TopicPartition(name[0], int(name[1:])) for name in names]


@pytest.mark.parametrize("assignor", [range_assignor, round_robin_assignor, sticky_assignor])
@given(members=memberships, partitions=counts)
def test_every_wanted_partition_has_one_reader_who_wants_it(
    assignor: Assignor, members: dict[str, Subscription], partitions: dict[str, int]
) -> None:
    given_out = assignor(members, partitions)

    assert everything(given_out) == Counter(wanted(members, partitions))
    assert given_out.keys() == members.keys()
    for member, got in given_out.items():
        assert {partition.topic for partition in got} <= set(members[member].topics)


@pytest.mark.parametrize("name", ASSIGNORS)
@given(members=memberships, partitions=counts, data=st.data())
def test_the_order_of_members_does_not_matter(
    name: str, members: dict[str, Subscription], partitions: dict[str, int], data: st.DataObject
) -> None:
    shuffled = dict(data.draw(st.permutations(list(members.items()))))

    assert ASSIGNORS[name](shuffled, partitions) == ASSIGNORS[name](members, partitions)


def test_range_gives_neighbours_and_the_rest_to_the_first() -> None:
    members = {name: Subscription(topics=["t", "u"]) for name in "ab"}

    assert range_assignor(members, {"t": 3, "u": 3}) == {"a": tp("t0", "t1", "u0", "u1"), "b": tp("t2", "u2")}


def test_round_robin_deals_all_topics_in_turn() -> None:
    members = {name: Subscription(topics=["t", "u"]) for name in "ab"}

    assert round_robin_assignor(members, {"t": 3, "u": 3}) == {"a": tp("t0", "t2", "u1"), "b": tp("t1", "u0", "u2")}


def test_round_robin_passes_over_who_does_not_subscribe() -> None:
    members = {"a": Subscription(topics=["t"]), "b": Subscription(topics=["u"]), "c": Subscription(topics=["t", "u"])}

    assert round_robin_assignor(members, {"t": 2, "u": 1}) == {"a": tp("t0"), "b": tp("u0"), "c": tp("t1")}


def test_static_members_keep_their_place_whatever_their_member_id() -> None:
    before = {"1": Subscription(topics=["t"], instance_id="x"), "2": Subscription(topics=["t"], instance_id="y")}
    after = {"9": Subscription(topics=["t"], instance_id="x"), "2": Subscription(topics=["t"], instance_id="y")}

    assert range_assignor(before, {"t": 3})["1"] == range_assignor(after, {"t": 3})["9"]


@given(members=memberships, partitions=counts)
def test_sticky_leaves_nothing_that_one_move_would_make_more_even(
    members: dict[str, Subscription], partitions: dict[str, int]
) -> None:
    given_out = sticky_assignor(members, partitions)

    for (more, had), (less, has) in permutations(given_out.items(), 2):
        if len(had) > len(has) + 1:
            assert not any(partition.topic in members[less].topics for partition in had), (more, less)


@given(members=memberships, partitions=counts, names=st.sets(st.sampled_from("abcdefgh"), min_size=1))
def test_sticky_keeps_all_that_balance_allows_where_all_want_the_same(
    members: dict[str, Subscription], partitions: dict[str, int], names: set[str]
) -> None:
    alike = {name: Subscription(topics=TOPICS, owned=members[name].owned if name in members else ()) for name in names}
    claims = Counter(partition for member in alike.values() for partition in set(member.owned))
    assume(all(count == 1 for count in claims.values()))
    real = wanted(alike, partitions)
    had = {name: real & set(member.owned) for name, member in alike.items()}

    given_out = sticky_assignor(alike, partitions)

    share, extra = divmod(len(real), len(alike))
    sizes = sorted(map(len, had.values()), reverse=True)
    best = sum(min(size, share + (place < extra)) for place, size in enumerate(sizes))
    assert sum(len(had[name] & set(got)) for name, got in given_out.items()) == best


@given(members=memberships, partitions=counts)
def test_sticky_repeats_itself(members: dict[str, Subscription], partitions: dict[str, int]) -> None:
    first = sticky_assignor(members, partitions)
    again = {name: Subscription(topics=member.topics, owned=first[name]) for name, member in members.items()}

    assert sticky_assignor(again, partitions) == first


def test_of_two_that_claim_a_partition_the_later_keeps_it() -> None:
    members = {
        "a": Subscription(topics=["t"], owned=tp("t0", "t1"), generation=1),
        "b": Subscription(topics=["t"], owned=tp("t0"), generation=2),
    }

    assert sticky_assignor(members, {"t": 2}) == {"a": tp("t1"), "b": tp("t0")}


def test_cooperative_gives_nothing_that_another_still_has() -> None:
    members = {
        "a": Subscription(topics=["t"], owned=tp("t0", "t1", "t2", "t3")),
        "b": Subscription(topics=["t"]),
    }

    first = cooperative_sticky_assignor(members, {"t": 4})
    assert (len(first["a"]), first["b"]) == (2, [])

    second = cooperative_sticky_assignor(
        {name: Subscription(topics=["t"], owned=got) for name, got in first.items()}, {"t": 4}
    )
    assert second["a"] == first["a"]
    assert everything(second) == Counter(tp("t0", "t1", "t2", "t3"))


@given(members=memberships, partitions=counts)
def test_cooperative_reaches_the_sticky_assignment_in_two_rebalances(
    members: dict[str, Subscription], partitions: dict[str, int]
) -> None:
    claims = Counter(partition for member in members.values() for partition in set(member.owned))
    assume(all(count == 1 for count in claims.values()))
    first = cooperative_sticky_assignor(members, partitions)
    for name, got in first.items():
        others = {at for other, member in members.items() if other != name for at in member.owned}
        assert not set(got) & others

    kept = {name: Subscription(topics=member.topics, owned=first[name]) for name, member in members.items()}
    second = cooperative_sticky_assignor(kept, partitions)

    assert everything(second) == Counter(wanted(members, partitions))
