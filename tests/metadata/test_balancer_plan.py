"""Plans: what moves, why, and that they come to an end."""

from collections import Counter
from math import ceil, floor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.config.cluster import Placement
from ottla.metadata.balancer_plan import Plan, Scope, plan_moves
from ottla.metadata.image import MetadataImage
from ottla.metadata.placement import crowding, least_crowded, open_brokers, seat_of, seats
from ottla.metadata.reassignments import moved
from tests.metadata.balancing import (
    a_cluster,
    after,
    carried_out,
    fenced,
    joining,
    leader_counts,
    marked,
    partition_of,
    replica_counts,
    topic_id_of,
    with_brokers,
    with_topic,
    with_topics,
)


def automatic(image: MetadataImage, limit: int | None = None) -> Plan:
    return plan_moves(image, scope=Scope.AUTOMATIC, limit=limit)


def on_demand(image: MetadataImage) -> Plan:
    return plan_moves(image, scope=Scope.ALL)


def done(image: MetadataImage, plan: Plan) -> MetadataImage:
    return carried_out(image, [moved(image, move.topic_id, move.partition, move.replicas) for move in plan.moves])


class TestABrokerJoins:
    def test_nothing_moves_while_nobody_joins_or_leaves(self) -> None:
        image = with_topics(a_cluster(3), 6, 1, 9, replication_factor=3)
        assert automatic(image) == Plan(moves=(), blocked=())

    def test_it_gets_its_share_and_says_why(self) -> None:
        image = joining(with_topics(a_cluster(3), 30, replication_factor=3), 4)
        plan = automatic(image)
        assert {move.added for move in plan.moves} == {(4,)}
        assert {move.reason for move in plan.moves} == {"broker 4 holds less than its share"}
        counts = replica_counts(done(image, plan))
        assert counts[4] == 22
        assert set(counts.values()) == {22, 23}

    def test_no_more_moves_than_it_takes(self) -> None:
        image = joining(with_topics(a_cluster(9), 30, 12, 1, 1, 8, replication_factor=3), 10)
        replicas = sum(replica_counts(image).values())
        assert len(automatic(image).moves) == replicas // 10

    def test_it_leads_its_share_too(self) -> None:
        image = joining(with_topics(a_cluster(3), 40, replication_factor=3), 4)
        after_it = done(image, automatic(image))
        assert leader_counts(after_it) == {1: 10, 2: 10, 3: 10, 4: 10}

    def test_it_gets_of_every_topic(self) -> None:
        image = joining(with_topics(a_cluster(3), 12, 12, 12, replication_factor=2), 4)
        taken = Counter(move.topic for move in automatic(image).moves)
        assert all(5 <= count <= 7 for count in taken.values())

    def test_two_at_once_share(self) -> None:
        image = joining(with_topics(a_cluster(3), 25, replication_factor=2), 4, 5)
        assert set(replica_counts(done(image, automatic(image))).values()) == {10}

    def test_the_same_broker_takes_the_same_partitions_whatever_else_there_is(self) -> None:
        image = with_topics(a_cluster(3), 60, replication_factor=1)
        alone = {move.partition for move in automatic(joining(image, 4)).moves}
        together = {move.partition for move in automatic(joining(image, 4, 5)).moves if move.added == (4,)}
        assert len(together & alone) >= len(together) * 0.8

    def test_what_it_does_not_need_stays_where_somebody_put_it(self) -> None:
        """Only brokers that join are filled: three brokers of which one holds all by choice are left alone."""
        image = with_topic(a_cluster(3), "mine", *[(1,)] * 12)
        assert automatic(image).moves == ()
        image = joining(image, 4)
        assert replica_counts(done(image, automatic(image))) == {1: 9, 2: 0, 3: 0, 4: 3}

    def test_a_plan_can_be_made_in_parts(self) -> None:
        image = joining(with_topics(a_cluster(3), 20, 4, replication_factor=2), 4)
        whole = len(automatic(image).moves)
        parts = 0
        while plan := automatic(image, limit=3).moves:
            assert len(plan) <= 3
            parts += len(plan)
            image = done(image, Plan(moves=plan, blocked=()))
        assert parts == whole

    def test_what_is_on_its_way_counts_as_there(self) -> None:
        image = joining(with_topics(a_cluster(3), 30, replication_factor=3), 4)
        first = automatic(image, limit=5)
        under_way = after(image, [moved(image, m.topic_id, m.partition, m.replicas) for m in first.moves])
        rest = automatic(under_way)
        assert len(first.moves) + len(rest.moves) == len(automatic(image).moves)
        assert not {(m.topic, m.partition) for m in first.moves} & {(m.topic, m.partition) for m in rest.moves}

    def test_a_new_rack_takes_replicas_apart(self) -> None:
        image = with_topics(a_cluster(4, racks=["a", "a", "b", "b"]), 8, replication_factor=3)
        image = joining(image, 5, rack="c")
        plan = automatic(image)
        assert len(plan.moves) == 8
        assert {move.reason for move in plan.moves} == {"two of its replicas were on one rack"}
        racks = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c"}
        assert all(len({racks[b] for b in move.replicas}) == 3 for move in plan.moves)

    def test_it_is_not_filled_at_the_price_of_crowded_racks(self) -> None:
        image = with_topics(a_cluster(2, racks=["a", "b"]), 10, replication_factor=2)
        image = joining(image, 3, rack="b")
        plan = automatic(image)
        assert {move.removed for move in plan.moves} == {(2,)}
        assert len(plan.moves) <= 6


class TestABrokerLeaves:
    def test_all_that_it_holds_goes_to_the_others_evenly(self) -> None:
        image = marked(with_topics(a_cluster(4), 20, 4, replication_factor=2), Placement.DRAINING, 2)
        plan = automatic(image)
        assert {move.removed for move in plan.moves} == {(2,)}
        assert {move.reason for move in plan.moves} == {"broker 2 is to be drained"}
        assert replica_counts(done(image, plan)) == {1: 16, 2: 0, 3: 16, 4: 16}

    def test_nothing_else_moves(self) -> None:
        image = marked(with_topics(a_cluster(4), 20, replication_factor=2), Placement.DRAINING, 2)
        assert len(automatic(image).moves) == replica_counts(image)[2]

    def test_one_that_is_gone_is_replaced(self) -> None:
        image = fenced(with_topics(a_cluster(4), 12, replication_factor=3), 3)
        assert automatic(image).moves == ()
        gone = marked(image, Placement.GONE, 3)
        assert {move.reason for move in automatic(gone).moves} == {"broker 3 is gone"}
        assert replica_counts(done(gone, automatic(gone))) == {1: 12, 2: 12, 3: 0, 4: 12}

    def test_one_that_is_not_registered_is_replaced(self) -> None:
        image = with_topic(a_cluster(3), "t", (1, 9))
        plan = automatic(image)
        assert plan.moves[0].reason == "broker 9 is not registered any more"
        assert 9 not in plan.moves[0].replicas

    def test_its_place_in_the_order_is_kept(self) -> None:
        image = marked(with_topic(a_cluster(3), "t", (1, 2)), Placement.DRAINING, 1)
        assert automatic(image).moves[0].replicas == (3, 2)

    def test_racks_stay_apart(self) -> None:
        image = with_topics(a_cluster(6, racks=["a", "b", "c"] * 2), 24, replication_factor=3)
        plan = automatic(marked(image, Placement.DRAINING, 1))
        assert {move.added for move in plan.moves} == {(4,)}

    def test_without_another_broker_it_says_so(self) -> None:
        image = marked(with_topic(a_cluster(2), "t", (1, 2)), Placement.DRAINING, 1)
        plan = automatic(image)
        assert plan.moves == ()
        assert [(b.topic, b.partition, b.broker_id, b.reason) for b in plan.blocked] == [
            ("t", 0, 1, "no other broker is left for it")
        ]

    def test_without_a_leader_there_is_nothing_to_copy(self) -> None:
        image = fenced(with_topic(a_cluster(3), "t", (1,)), 1)
        (blocked,) = automatic(marked(image, Placement.GONE, 1)).blocked
        assert blocked.reason.startswith("nobody leads it")

    def test_a_move_to_a_broker_that_has_gone_is_turned_elsewhere(self) -> None:
        image = with_topic(a_cluster(4), "t", (1, 2))
        image = after(image, [moved(image, topic_id_of("t"), 0, (3, 2))])
        image = marked(fenced(image, 3), Placement.GONE, 3)
        (move,) = automatic(image).moves
        assert move.replicas == (1, 2), "who has the data already is the best"
        draining = marked(image, Placement.DRAINING, 1)
        assert partition_of(done(draining, automatic(draining)), "t").replicas == (4, 2)


class TestTheClustersOwnTopics:
    def lacking(self, image: MetadataImage) -> Plan:
        return plan_moves(image, scope=Scope.AUTOMATIC, replication_factors={"__consumer_offsets": 3})

    def test_get_the_replicas_that_there_were_no_brokers_for(self) -> None:
        image = with_topic(a_cluster(3), "__consumer_offsets", (1,), (1, 2))
        plan = self.lacking(image)
        assert [sorted(move.replicas) for move in plan.moves] == [[1, 2, 3], [1, 2, 3]]
        assert [move.replicas[0] for move in plan.moves] == [1, 1]
        assert plan.moves[0].reason == "it shall have 3 replicas; it shall have 3 replicas"

    def test_get_as_many_as_there_are_brokers(self) -> None:
        image = with_topic(a_cluster(2), "__consumer_offsets", (1,))
        assert self.lacking(image).moves[0].replicas == (1, 2)
        assert self.lacking(done(image, self.lacking(image))).moves == ()

    def test_others_keep_theirs(self) -> None:
        assert self.lacking(with_topic(a_cluster(3), "t", (1,))).moves == ()


class TestOnDemand:
    def test_uneven_shares_are_evened_out(self) -> None:
        image = with_topic(a_cluster(3), "t", *[(1, 2)] * 30)
        counts = replica_counts(done(image, on_demand(image)))
        assert all(19 <= count <= 21 for count in counts.values())

    def test_small_differences_are_left_alone(self) -> None:
        image = with_topic(a_cluster(2), "t", *[(1,)] * 52, *[(2,)] * 48)
        assert on_demand(image).moves == ()

    def test_crowded_racks_are_mended(self) -> None:
        image = with_topic(a_cluster(4, racks=["a", "a", "b", "b"]), "t", (1, 2), (3, 4))
        plan = on_demand(image)
        assert [move.reason for move in plan.moves] == ["two of its replicas were on one rack"] * 2

    def test_crowded_hosts_are_mended(self) -> None:
        image = with_topic(a_cluster(3, hosts=["x", "x", "y"]), "t", (1, 2))
        (move,) = on_demand(image).moves
        assert 3 in move.replicas
        assert move.reason == "two of its replicas were on one host"


@st.composite
def clusters(draw: st.DrawFn) -> MetadataImage:
    """Any cluster, in the midst of anything."""
    count = draw(st.integers(1, 7))
    racks = draw(st.lists(st.sampled_from(["a", "b", "c", None]), min_size=count, max_size=count))
    hosts = draw(st.lists(st.sampled_from(["x", "y", "z"]), min_size=count, max_size=count))
    image = a_cluster(count, racks=racks, hosts=hosts)
    for name in draw(st.lists(st.sampled_from("pqrs"), unique=True)):
        width = draw(st.integers(1, min(3, count)))
        replicas = st.lists(st.integers(1, count), min_size=width, max_size=width, unique=True)
        image = with_topic(image, name, *draw(st.lists(replicas, min_size=1, max_size=12)))
    image = fenced(image, *draw(st.sets(st.integers(1, count), max_size=count // 3)))
    for broker_id, placement in draw(st.dictionaries(st.integers(1, count), st.sampled_from(Placement))).items():
        image = marked(image, placement, broker_id)
    if draw(st.booleans()):
        newcomers = draw(st.integers(1, 2))
        image = with_brokers(image, range(count + 1, count + 1 + newcomers), racks=["d"] * newcomers)
        image = marked(image, Placement.JOINING, *range(count + 1, count + 1 + newcomers))
    return image


@given(image=clusters(), scope=st.sampled_from(Scope))
@settings(max_examples=300, deadline=None)
def test_a_plan_of_what_a_plan_leads_to_is_empty(image: MetadataImage, scope: Scope) -> None:
    result = done(image, plan_moves(image, scope=scope))
    assert plan_moves(result, scope=scope).moves == ()


@given(image=clusters(), scope=st.sampled_from(Scope))
@settings(max_examples=300, deadline=None)
def test_moves_keep_the_number_of_replicas_and_use_open_brokers_once(image: MetadataImage, scope: Scope) -> None:
    usable = {broker.broker_id for broker in open_brokers(image)}
    for move in plan_moves(image, scope=scope).moves:
        assert len(move.replicas) == len(move.before) == len(set(move.replicas))
        assert set(move.added) <= usable
        assert move.added
        assert move.reason


@given(image=clusters())
@settings(max_examples=200, deadline=None)
def test_on_demand_replicas_end_up_as_far_apart_as_they_can_be(image: MetadataImage) -> None:
    result = done(image, on_demand(image))
    chairs = seats(open_brokers(result))
    usable = {seat.broker_id for seat in chairs}
    for topic in result.topics.values():
        for partition in topic.partitions.values():
            if partition.leader >= 0 and usable.issuperset(partition.replicas):
                best = [seat for seat, _ in zip(least_crowded(chairs), partition.replicas, strict=False)]
                found = [seat_of(result.brokers[broker_id]) for broker_id in partition.replicas]
                assert crowding(found) == crowding(best)


@pytest.mark.parametrize("brokers", [3, 5, 10, 30])
def test_brokers_come_and_go_and_shares_stay_even(brokers: int) -> None:
    image = with_topics(a_cluster(brokers), 40, 12, 6, 1, 3, replication_factor=3)
    for newcomer in range(brokers + 1, brokers + 4):
        image = joining(image, newcomer)
        image = marked(done(image, automatic(image)), Placement.OPEN, newcomer)
    for leaver in (1, 2, 3):
        image = marked(image, Placement.DRAINING, leaver)
        image = done(image, automatic(image))
    counts = [count for broker_id, count in replica_counts(image).items() if broker_id > 3]
    average = sum(counts) / len(counts)
    assert floor(average) - 1 <= min(counts)
    assert max(counts) <= ceil(average) + 1
