"""The balancer over time: brokers join, leave, die and come back, controllers crash, and in the end all is at rest."""

import random
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.config import BrokerConfig, ClusterConfig
from ottla.config.cluster import Placement
from ottla.membership.member import Load
from ottla.metadata.balancer import HOLD_MS, Balancer, joined, left
from ottla.metadata.balancer_leaders import Loads, PartitionKey, PartitionLoad
from ottla.metadata.image import MetadataImage
from ottla.metadata.placement import placement_of
from ottla.metadata.reassignments import moved
from ottla.metadata.records import MetadataRecord
from ottla.protocol.messages.metadata_records import (
    BrokerEndpoint,
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
)
from tests.metadata.balancing import (
    a_cluster,
    after,
    back,
    caught_up,
    fenced,
    joining,
    leader_counts,
    marked,
    moving,
    partition_of,
    replica_counts,
    topic_id_of,
    with_topic,
    with_topics,
)

MINUTE_MS = 60_000
MB = 10**6


def a_config(**cluster: Any) -> BrokerConfig:
    return BrokerConfig(cluster=ClusterConfig(**cluster))


class Cluster:
    """An image, the balancer that looks at it, and brokers that copy as fast as they can."""

    def __init__(self, image: MetadataImage, **settings: Any) -> None:
        self.config = a_config(**settings)
        self.image = image
        self.balancer = Balancer(self.config)
        self.now_ms = 1_000
        self.moved_at_once = 0
        self._seen: MetadataImage | None = None
        self._moving: list[PartitionKey] = []
        self.records: list[MetadataRecord] = []

    def tick(self, *, copy: bool = True) -> list[MetadataRecord]:
        self.now_ms = max(self.now_ms, self.due_ms())
        under_way = self.moving()
        records = self.balancer.tick(self.image, under_way, self.now_ms)
        if records:
            self.records += records
            self.image = after(self.image, records)
            self.moved_at_once = max(self.moved_at_once, len(self.moving()))
        if copy and (records or under_way):
            self.image = caught_up(self.image)
        return records

    def moving(self) -> list[PartitionKey]:
        if self._seen is not self.image:
            self._seen, self._moving = self.image, moving(self.image)
        return self._moving

    def run(self, duration_ms: int, *, copy: bool = True) -> int:
        """How many records were written in this time."""
        end_ms, written = self.now_ms + duration_ms, 0
        while self.due_ms() <= end_ms:
            written += len(self.tick(copy=copy))
        self.now_ms = end_ms
        return written

    def due_ms(self) -> int:
        due_ms = self.balancer.next_deadline_ms(self.image)
        assert due_ms is not None
        return due_ms

    def crash(self) -> None:
        """Another controller takes over; all that it has is the image."""
        self.balancer = Balancer(self.config)


def placements(image: MetadataImage) -> dict[int, Placement]:
    return {broker_id: placement_of(image, broker_id) for broker_id in image.brokers}


def test_a_cluster_at_rest_writes_nothing() -> None:
    cluster = Cluster(with_topics(a_cluster(3), 20, 3, replication_factor=3))
    assert cluster.run(60 * MINUTE_MS) == 0


def test_a_cluster_of_one_has_no_timer() -> None:
    image = with_topics(a_cluster(1), 3, replication_factor=1)
    balancer = Balancer(a_config())
    assert balancer.next_deadline_ms(image) is None
    assert balancer.tick(image, [], 1_000) == []


class TestJoining:
    def test_a_new_broker_is_filled_and_then_one_like_the_others(self) -> None:
        cluster = Cluster(joining(with_topics(a_cluster(3), 40, replication_factor=3), 4))
        cluster.run(MINUTE_MS)
        assert set(replica_counts(cluster.image).values()) == {30}
        assert set(leader_counts(cluster.image).values()) == {10}
        assert set(placements(cluster.image).values()) == {Placement.OPEN}
        assert cluster.run(60 * MINUTE_MS) == 0

    def test_only_a_few_partitions_move_at_once(self) -> None:
        cluster = Cluster(joining(with_topics(a_cluster(3), 40, replication_factor=3), 4), rebalance_moves_max=3)
        cluster.run(MINUTE_MS)
        assert cluster.moved_at_once == 3

    def test_moves_that_clients_asked_for_count(self) -> None:
        image = joining(with_topics(with_topic(a_cluster(3), "t", (1,), (1,)), 40, replication_factor=3), 4)
        image = after(image, [moved(image, topic_id_of("t"), index, (2,)) for index in (0, 1)])
        cluster = Cluster(image, rebalance_moves_max=3)
        assert len(cluster.tick(copy=False)) == 1

    def test_moves_to_a_broker_that_is_away_do_not(self) -> None:
        image = joining(with_topics(with_topic(a_cluster(3), "t", (1,), (1,)), 40, replication_factor=2), 4)
        image = after(image, [moved(image, topic_id_of("t"), index, (2,)) for index in (0, 1)])
        image = after(image, [BrokerRegistrationChangeRecord(broker_id=2, fenced=1)])
        cluster = Cluster(image, rebalance_moves_max=3)
        assert len(cluster.tick(copy=False)) == 3

    def test_large_partitions_move_one_by_one(self) -> None:
        image = joining(with_topics(a_cluster(3), 40, replication_factor=3), 4)
        cluster = Cluster(image, rebalance_bytes_max=1000)
        keys = [(topic.topic_id, index) for topic in image.topics.values() for index in topic.partitions]
        cluster.balancer.loads = Loads(partitions={key: PartitionLoad(size_bytes=700) for key in keys})
        assert len(cluster.tick(copy=False)) == 1
        assert cluster.tick(copy=False) == []
        cluster.balancer.loads = Loads(partitions={key: PartitionLoad(size_bytes=300) for key in keys})
        assert len(cluster.tick(copy=False)) == 2

    def test_without_automatic_rebalancing_nothing_is_marked_or_moved(self) -> None:
        config = a_config(auto_rebalance_enable=False)
        image = with_topics(a_cluster(3), 9, replication_factor=3)
        assert joined(config, image, 4) == []

    def test_the_first_registration_in_a_cluster_with_topics_is_a_joining(self) -> None:
        config, empty = a_config(), a_cluster(3)
        image = with_topics(empty, 9, replication_factor=3)
        assert placement_of(after(image, joined(config, image, 4)), 4) == Placement.JOINING
        assert joined(config, image, 3) == []
        assert joined(config, empty, 4) == []

    def test_who_is_unregistered_leaves_no_mark(self) -> None:
        image = marked(a_cluster(3), Placement.DRAINING, 2)
        assert placement_of(after(image, left(image, 2)), 2) == Placement.OPEN
        assert left(image, 1) == []


class TestLeaving:
    def test_a_drained_broker_ends_up_empty_and_stays_so(self) -> None:
        image = marked(with_topics(a_cluster(4), 20, replication_factor=3), Placement.DRAINING, 2)
        cluster = Cluster(image)
        cluster.run(MINUTE_MS)
        assert replica_counts(cluster.image)[2] == 0
        assert placements(cluster.image)[2] == Placement.DRAINING
        assert cluster.run(60 * MINUTE_MS) == 0

    def test_draining_needs_no_automatic_rebalancing(self) -> None:
        image = marked(with_topics(a_cluster(4), 20, replication_factor=3), Placement.DRAINING, 2)
        cluster = Cluster(image, auto_rebalance_enable=False)
        cluster.run(MINUTE_MS)
        assert replica_counts(cluster.image)[2] == 0

    def test_a_broker_that_is_away_for_long_is_gone_and_replaced(self) -> None:
        cluster = Cluster(
            fenced(with_topics(a_cluster(4), 20, replication_factor=3), 3), broker_gone_after_ms=MINUTE_MS
        )
        assert cluster.run(MINUTE_MS - 1) == 0
        cluster.run(MINUTE_MS)
        assert placements(cluster.image)[3] == Placement.GONE
        assert replica_counts(cluster.image) == {1: 20, 2: 20, 3: 0, 4: 20}
        assert cluster.run(60 * MINUTE_MS) == 0

    def test_it_is_filled_again_when_it_comes_back(self) -> None:
        cluster = Cluster(
            fenced(with_topics(a_cluster(4), 20, replication_factor=3), 3), broker_gone_after_ms=MINUTE_MS
        )
        cluster.run(3 * MINUTE_MS)
        cluster.image = back(cluster.image, 3)
        cluster.run(MINUTE_MS)
        assert set(replica_counts(cluster.image).values()) == {15}
        assert set(placements(cluster.image).values()) == {Placement.OPEN}

    def test_a_short_absence_moves_nothing(self) -> None:
        cluster = Cluster(
            fenced(with_topics(a_cluster(4), 20, replication_factor=3), 3), broker_gone_after_ms=MINUTE_MS
        )
        for _ in range(5):
            cluster.run(MINUTE_MS - 5_000)
            cluster.image = back(cluster.image, 3)
            cluster.run(2_000)
            cluster.image = after(cluster.image, [BrokerRegistrationChangeRecord(broker_id=3, fenced=1)])
        assert replica_counts(cluster.image)[3] == 15

    @pytest.mark.parametrize("settings", [{"broker_gone_after_ms": 0}, {"auto_rebalance_enable": False}])
    def test_nobody_is_ever_gone_where_that_is_not_wanted(self, settings: Mapping[str, Any]) -> None:
        cluster = Cluster(fenced(with_topics(a_cluster(4), 20, replication_factor=3), 3), **settings)
        assert cluster.run(600 * MINUTE_MS) == 0

    def test_what_clients_put_on_a_drained_broker_goes_too(self) -> None:
        cluster = Cluster(marked(with_topics(a_cluster(4), 8, replication_factor=3), Placement.DRAINING, 2))
        cluster.run(MINUTE_MS)
        cluster.image = with_topic(cluster.image, "late", (2, 3, 4))
        cluster.run(MINUTE_MS)
        assert replica_counts(cluster.image)[2] == 0

    def test_what_can_not_move_yet_moves_once_it_can(self) -> None:
        cluster = Cluster(marked(with_topic(a_cluster(2), "t", (1, 2)), Placement.DRAINING, 1))
        assert cluster.run(MINUTE_MS) == 0
        cluster.image = joining(cluster.image, 3)
        cluster.run(MINUTE_MS)
        assert partition_of(cluster.image, "t").replicas == (3, 2)


class TestTheClustersOwnTopics:
    def test_get_their_replicas_as_brokers_come(self) -> None:
        image = with_topic(a_cluster(1), "__consumer_offsets", *[(1,)] * 5)
        cluster = Cluster(joining(joining(image, 2), 3))
        cluster.run(MINUTE_MS)
        assert {len(p.replicas) for p in cluster.image.topics["__consumer_offsets"].partitions.values()} == {3}
        assert cluster.run(60 * MINUTE_MS) == 0


class TestLeaders:
    def test_go_back_once_their_broker_has_been_there_for_a_while(self) -> None:
        image = with_topics(a_cluster(3), 9, replication_factor=3)
        cluster = Cluster(fenced(image, 1), leader_rebalance_delay_ms=30_000)
        cluster.run(10_000)
        cluster.image = caught_up(back(cluster.image, 1))
        assert cluster.run(29_000) == 0
        cluster.run(10_000)
        assert leader_counts(cluster.image) == {1: 3, 2: 3, 3: 3}

    def test_a_restart_that_nobody_saw_counts_as_one(self) -> None:
        image = with_topics(a_cluster(3), 9, replication_factor=3)
        cluster = Cluster(image, leader_rebalance_delay_ms=30_000)
        cluster.run(MINUTE_MS)
        again = RegisterBrokerRecord(
            broker_id=1, broker_epoch=7, end_points=[BrokerEndpoint(host="h1", port=9092)], rack=None, fenced=False
        )
        cluster.image = caught_up(back(fenced(cluster.image, 1), 1))
        cluster.image = after(cluster.image, [again])
        assert cluster.run(29_000) == 0
        cluster.run(10_000)
        assert leader_counts(cluster.image) == {1: 3, 2: 3, 3: 3}

    def test_do_not_go_to_a_broker_that_is_to_be_emptied(self) -> None:
        image = with_topics(a_cluster(3), 9, replication_factor=3)
        image = marked(caught_up(back(fenced(image, 1), 1)), Placement.DRAINING, 1)
        cluster = Cluster(image)
        assert cluster.run(60 * MINUTE_MS) == 0
        assert leader_counts(cluster.image)[1] == 0

    def test_stay_where_that_is_switched_off(self) -> None:
        image = fenced(with_topics(a_cluster(3), 9, replication_factor=3), 1)
        cluster = Cluster(caught_up(back(image, 1)), auto_leader_rebalance_enable=False)
        assert cluster.run(60 * MINUTE_MS) == 0

    def test_leave_a_broker_that_carries_too_much(self) -> None:
        image = with_topics(a_cluster(3), 30, replication_factor=3)
        cluster = Cluster(image)
        heavy = Load(bytes_in_per_s=90 * MB)
        cluster.balancer.loads = Loads(brokers={1: heavy, 2: Load(30 * MB), 3: Load(30 * MB)})
        cluster.run(2 * MINUTE_MS)
        assert leader_counts(cluster.image)[1] < 10

    def test_stay_until_all_figures_are_from_after_the_last_change(self) -> None:
        """Right after leaders have moved, the figures still say that their old broker carries everything."""
        cluster = Cluster(with_topic(a_cluster(3), "t", *[(1, 2, 3)] * 6), leader_rebalance_delay_ms=30_000)
        cluster.balancer.loads = Loads(brokers={1: Load(60 * MB), 2: Load(), 3: Load()})
        while set(leader_counts(cluster.image).values()) != {2}:
            cluster.run(1_000)
        assert cluster.run(29_000) == 0
        cluster.balancer.loads = Loads(brokers={1: Load(20 * MB), 2: Load(20 * MB), 3: Load(20 * MB)})
        assert cluster.run(60 * MINUTE_MS) == 0

    def test_figures_that_lead_astray_move_them_ever_more_seldom(self) -> None:
        """Broker 1 always seems to carry most, whatever it leads: in ten times the time, not ten times the moves."""
        cluster = Cluster(with_topics(a_cluster(3), 30, replication_factor=3))

        def moves_during(minutes: int) -> int:
            count = 0
            for minute in range(minutes):
                hot = 1 + minute % 3
                cluster.balancer.loads = Loads(
                    brokers={broker: Load((90 if broker == hot else 30) * MB) for broker in (1, 2, 3)}
                )
                count += cluster.run(MINUTE_MS)
            return count

        first = moves_during(50)
        assert moves_during(500) < 4 * first

    def test_one_that_moved_stays_for_a_while(self) -> None:
        cluster = Cluster(with_topic(a_cluster(2), "t", (1, 2), (1, 2)))
        cluster.balancer.loads = Loads(brokers={1: Load(90 * MB), 2: Load()})
        cluster.run(MINUTE_MS)
        assert leader_counts(cluster.image) == {1: 1, 2: 1}
        (index,) = [i for i, p in cluster.image.topics["t"].partitions.items() if p.leader == 2]
        cluster.image = after(
            cluster.image, [PartitionChangeRecord(topic_id=topic_id_of("t"), partition_id=1 - index, leader=2)]
        )
        cluster.balancer.loads = Loads(brokers={1: Load(), 2: Load(90 * MB)})
        cluster.run(HOLD_MS // 2)
        assert partition_of(cluster.image, "t", index).leader == 2


class TestControllersCrash:
    def test_a_new_controller_goes_on_to_the_same_end(self) -> None:
        image = joining(with_topics(a_cluster(3), 40, replication_factor=3), 4)
        undisturbed, disturbed = Cluster(image), Cluster(image)
        undisturbed.run(MINUTE_MS)
        for _ in range(20):
            disturbed.run(400)
            disturbed.crash()
        disturbed.run(MINUTE_MS)
        assert replica_counts(disturbed.image) == replica_counts(undisturbed.image)
        assert len(disturbed.records) == len(undisturbed.records), "nothing moves twice"

    def test_a_broker_that_is_gone_stays_gone_for_the_next_controller(self) -> None:
        cluster = Cluster(
            fenced(with_topics(a_cluster(4), 40, replication_factor=3), 3),
            broker_gone_after_ms=MINUTE_MS,
            rebalance_moves_max=1,
        )
        cluster.run(MINUTE_MS + 1_000)
        assert 0 < replica_counts(cluster.image)[3] < 30
        cluster.crash()
        cluster.run(MINUTE_MS // 2)
        assert replica_counts(cluster.image)[3] == 0

    def test_moves_that_were_all_but_done_are_ended(self) -> None:
        image = with_topic(a_cluster(2), "t", (1,))
        image = after(image, [moved(image, topic_id_of("t"), 0, (2,))])
        image = after(image, [PartitionChangeRecord(topic_id=topic_id_of("t"), partition_id=0, isr=[1, 2])])
        cluster = Cluster(image)
        cluster.tick(copy=False)
        assert partition_of(cluster.image, "t").replicas == (2,)


def test_a_hundred_brokers_survive_thirty_deaths_one_after_the_other() -> None:
    racks = [f"rack-{number % 5}" for number in range(100)]
    cluster = Cluster(
        with_topics(a_cluster(100, racks=racks), *[30] * 10, replication_factor=3), broker_gone_after_ms=MINUTE_MS
    )
    dice = random.Random(7)
    dead: set[int] = set()
    for _ in range(30):
        victim = dice.choice([broker_id for broker_id in cluster.image.brokers if broker_id not in dead])
        dead.add(victim)
        cluster.image = fenced(cluster.image, victim)
        cluster.run(2 * MINUTE_MS)
        counts = replica_counts(cluster.image)
        assert all(counts[broker_id] == 0 for broker_id in dead)
    live = [count for broker_id, count in counts.items() if broker_id not in dead]
    assert max(live) - min(live) <= 6
    for topic in cluster.image.topics.values():
        for partition in topic.partitions.values():
            assert len({racks[broker_id - 1] for broker_id in partition.replicas}) == 3
            assert len(partition.isr) == 3
    assert cluster.run(5 * MINUTE_MS) == 0


def events(draw: st.DrawFn, brokers: int) -> Iterator[tuple[str, int]]:
    for _ in range(draw(st.integers(1, 12))):
        kind = draw(st.sampled_from(["fence", "back", "drain", "open", "join", "crash", "wait", "long"]))
        yield kind, draw(st.integers(1, brokers))


@st.composite
def stories(draw: st.DrawFn) -> tuple[int, int, list[tuple[str, int]]]:
    brokers = draw(st.integers(2, 6))
    return brokers, draw(st.integers(1, min(3, brokers))), list(events(draw, brokers))


@given(story=stories(), seed=st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_whatever_happens_it_ends_at_rest_with_every_drained_broker_empty(
    story: tuple[int, int, list[tuple[str, int]]], seed: int
) -> None:
    brokers, width, happenings = story
    cluster = Cluster(
        with_topics(a_cluster(brokers), 7, 2, 1, replication_factor=width, start=seed), broker_gone_after_ms=MINUTE_MS
    )
    newcomer = brokers
    for kind, broker_id in happenings:
        match kind:
            case "fence":
                cluster.image = fenced(cluster.image, broker_id)
            case "back":
                cluster.image = _elected(caught_up(back(cluster.image, broker_id)))
            case "drain":
                cluster.image = marked(cluster.image, Placement.DRAINING, broker_id)
            case "open":
                cluster.image = marked(cluster.image, Placement.OPEN, broker_id)
            case "join":
                newcomer += 1
                cluster.image = joining(cluster.image, newcomer)
            case "crash":
                cluster.crash()
        cluster.run({"wait": 3_000, "long": 3 * MINUTE_MS}.get(kind, random.Random(seed).randint(1, 900)))
    cluster.image = _elected(caught_up(back(cluster.image, *cluster.image.brokers)))
    cluster.run(5 * MINUTE_MS)
    assert cluster.run(5 * MINUTE_MS) == 0
    assert moving(cluster.image) == []
    counts, marks = replica_counts(cluster.image), placements(cluster.image)
    assert Placement.GONE not in marks.values()
    room = sum(placement == Placement.OPEN for placement in marks.values())
    assert all(counts[b] == 0 for b in marks if marks[b] == Placement.DRAINING) or room < width
    assert sum(counts.values()) == 10 * width


def _elected(image: MetadataImage) -> MetadataImage:
    """Partitions that nobody led are led again by the first replica, as the controller sees to it."""
    keys: list[tuple[PartitionKey, int]] = [
        ((topic.topic_id, index), partition.replicas[0])
        for topic in image.topics.values()
        for index, partition in topic.partitions.items()
        if partition.leader < 0
    ]
    records = [
        PartitionChangeRecord(topic_id=topic_id, partition_id=index, leader=leader, isr=[leader])
        for (topic_id, index), leader in keys
        if image.brokers[leader].is_active
    ]
    return caught_up(after(image, records))
