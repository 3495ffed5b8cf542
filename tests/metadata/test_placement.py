from collections import Counter
from dataclasses import replace
from itertools import combinations, islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.config.cluster import Placement
from ottla.errors import BrokerError, ErrorCode
from ottla.metadata.image import BrokerImage, Endpoint, ResourceType
from ottla.metadata.placement import (
    PLACEMENT,
    crowding,
    hash_of,
    least_crowded,
    open_brokers,
    place,
    placement_of,
    rank,
    seat_of,
    seats,
)
from ottla.protocol.messages.metadata_records import ConfigRecord
from tests.metadata.balancing import a_cluster, after, marked
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


def on_hosts(*hosts: str, rack: str | None = None) -> list[BrokerImage]:
    return [
        replace(a_broker(number, rack), endpoints=(Endpoint("PLAINTEXT", host, 9092, 0),))
        for number, host in enumerate(hosts, 1)
    ]


def test_the_ring_changes_host_within_a_rack() -> None:
    assert [seat.broker_id for seat in seats(on_hosts("x", "x", "y", "y"))] == [1, 3, 2, 4]


def test_replicas_are_on_different_hosts() -> None:
    hosts = {1: "x", 2: "x", 3: "y", 4: "y", 5: "z"}
    for replicas in place(on_hosts(*hosts.values()), partitions=20, replication_factor=3, start=0):
        assert {hosts[broker] for broker in replicas} == {"x", "y", "z"}


def test_racks_come_before_hosts() -> None:
    brokers = [*on_hosts("x", "y", rack="a"), *(replace(b, broker_id=3) for b in on_hosts("x", rack="b"))]
    for replicas in place(brokers, partitions=6, replication_factor=2, start=0):
        assert 3 in replicas


def test_crowding_counts_pairs_that_share_a_rack_or_a_host() -> None:
    same_host = [seat_of(broker) for broker in on_hosts("x", "x", "x", rack="a")]
    same_rack = [seat_of(broker) for broker in on_hosts("x", "y", "z", rack="a")]
    apart = [seat_of(a_broker(1, "a")), seat_of(a_broker(2, "b"))]
    assert crowding(same_host) == (3, 3)
    assert crowding(same_rack) == (3, 0)
    assert crowding(apart) == (0, 0)


@given(racks=st.lists(st.sampled_from("abc"), min_size=1, max_size=6), data=st.data())
def test_no_choice_of_brokers_is_less_crowded_than_the_one_taken(racks: list[str], data: st.DataObject) -> None:
    hosts = data.draw(st.lists(st.sampled_from("xyz"), min_size=len(racks), max_size=len(racks)))
    chairs = [seat_of(replace(broker, rack=rack)) for broker, rack in zip(on_hosts(*hosts), racks, strict=True)]
    count = data.draw(st.integers(1, len(chairs)))
    taken = crowding(list(islice(least_crowded(chairs), count)))
    assert taken == min(crowding(choice) for choice in combinations(chairs, count))


def test_brokers_that_leave_get_nothing_new() -> None:
    image = a_cluster(4)
    image = marked(marked(marked(image, Placement.DRAINING, 2), Placement.GONE, 3), Placement.JOINING, 4)
    assert [broker.broker_id for broker in open_brokers(image)] == [1, 4]
    assert [placement_of(image, broker_id) for broker_id in (1, 2)] == [Placement.OPEN, Placement.DRAINING]


def test_a_word_for_a_placement_that_is_not_known_means_nothing() -> None:
    word = ConfigRecord(resource_type=ResourceType.BROKER, resource_name="1", name=PLACEMENT, value="upstairs")
    assert placement_of(after(a_cluster(1), [word]), 1) == Placement.OPEN


def test_every_broker_has_its_own_order_of_preference_among_partitions() -> None:
    """Rendezvous hashing: the best broker of a partition stays the best when others come and go, and each broker is
    the best for about as many partitions."""
    hashes = [hash_of(bytes([topic]) * 16, partition) for topic in range(20) for partition in range(100)]
    best = Counter(max(range(10), key=lambda broker: rank(value, broker)) for value in hashes)
    assert min(best.values()) > 150
    assert max(best.values()) < 250
    without_last = [max(range(9), key=lambda broker: rank(value, broker)) for value in hashes]
    moved = [
        value
        for value, now in zip(hashes, without_last, strict=True)
        if now != max(range(10), key=lambda broker: rank(value, broker))
    ]
    assert len(moved) == best[9]
