"""From where a consumer should read."""

from ottla.replication.preferred import NO_PREFERENCE, preferred_replica
from tests.replication.cluster import Replicas

RACKS = {1: "a", 2: "b", 3: "b"}


def replicated() -> Replicas:
    """Three records; node 2 has all of them, node 3 has one."""
    replicas = Replicas()
    replicas.produce(b"x")
    replicas.copy(3, rounds=2)
    replicas.produce(b"y", b"z")
    replicas.copy(2, rounds=2)
    return replicas


def test_the_follower_in_the_rack_that_has_come_furthest() -> None:
    assert preferred_replica(replicated().leader, "b", 1, RACKS.get) == 2


def test_not_one_that_is_behind_what_is_asked_for() -> None:
    assert preferred_replica(replicated().leader, "b", 4, RACKS.get) == NO_PREFERENCE


def test_not_one_that_is_not_in_sync() -> None:
    replicas = replicated()
    replicas.set_isr(1, 3)
    assert preferred_replica(replicas.leader, "b", 1, RACKS.get) == 3


def test_the_leader_itself_if_it_is_in_the_rack() -> None:
    assert preferred_replica(replicated().leader, "a", 0, RACKS.get) == NO_PREFERENCE


def test_nobody_in_a_rack_without_replicas() -> None:
    assert preferred_replica(replicated().leader, "c", 0, RACKS.get) == NO_PREFERENCE
