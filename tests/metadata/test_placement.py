from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import BrokerError, ErrorCode
from ottla.metadata.placement import place, seats
from tests.metadata.cluster import a_broker


def test_one_broker_holds_everything() -> None:
    assert place([a_broker(1)], partitions=3, replication_factor=1, start=5) == [(1,), (1,), (1,)]


def test_leaders_go_round() -> None:
    placed = place([a_broker(n) for n in (1, 2, 3)], partitions=4, replication_factor=1, start=1)
    assert placed == [(2,), (3,), (1,), (2,)]


def test_new_partitions_go_on_where_the_old_ones_ended() -> None:
    brokers = [a_broker(n) for n in range(1, 6)]
    whole = place(brokers, partitions=20, replication_factor=3, start=2)
    first = place(brokers, partitions=7, replication_factor=3, start=2)
    rest = place(brokers, partitions=13, replication_factor=3, start=2, first_partition=7)
    assert first + rest == whole


def test_the_partitions_of_a_dead_leader_are_taken_over_by_many() -> None:
    placed = place([a_broker(n) for n in range(5)], partitions=40, replication_factor=2, start=0)
    assert {follower for leader, follower in placed if leader == 0} == {1, 2, 3, 4}


def test_fenced_brokers_get_nothing() -> None:
    brokers = [a_broker(1), a_broker(2, fenced=True), a_broker(3)]
    placed = place(brokers, partitions=4, replication_factor=2, start=0)
    assert {broker for replicas in placed for broker in replicas} == {1, 3}


def test_more_replicas_than_brokers_are_refused() -> None:
    with pytest.raises(BrokerError, match=r"3 time\(s\): only 2 broker") as caught:
        place([a_broker(1), a_broker(2), a_broker(3, fenced=True)], partitions=1, replication_factor=3, start=0)
    assert caught.value.code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_the_ring_changes_rack_with_every_step() -> None:
    brokers = [a_broker(1, "a"), a_broker(2, "a"), a_broker(3, "b"), a_broker(4, "b")]
    assert [seat.broker_id for seat in seats(brokers)] == [1, 3, 2, 4]


CLUSTERS = st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=12)


@given(racks=CLUSTERS, data=st.data())
def test_replicas_differ_and_span_as_many_racks_as_they_can(racks: list[str | None], data: st.DataObject) -> None:
    brokers = [a_broker(number, rack) for number, rack in enumerate(racks)]
    replication_factor = data.draw(st.integers(1, len(brokers)))
    start = data.draw(st.integers(0, 100))

    placed = place(brokers, partitions=2 * len(brokers), replication_factor=replication_factor, start=start)

    for replicas in placed:
        assert len(set(replicas)) == replication_factor
        assert len({racks[broker] for broker in replicas}) == min(replication_factor, len(set(racks)))


@given(racks=CLUSTERS, start=st.integers(0, 100), rounds=st.integers(1, 3))
def test_leaders_are_spread_evenly(racks: list[str | None], start: int, rounds: int) -> None:
    brokers = [a_broker(number, rack) for number, rack in enumerate(racks)]
    placed = place(brokers, partitions=rounds * len(brokers), replication_factor=1, start=start)
    assert set(Counter(replicas[0] for replicas in placed).values()) == {rounds}
