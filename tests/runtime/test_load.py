"""What a node says of its own load."""

from types import SimpleNamespace
from typing import Any, cast

from ottla.membership import Load
from ottla.runtime.connection import Connection
from ottla.runtime.load import LoadMeter
from ottla.runtime.server import Traffic


class Clock:
    def __init__(self) -> None:
        self.at_ms = 1_000

    def now_ms(self) -> int:
        return self.at_ms

    def monotonic_ms(self) -> int:
        return self.at_ms


def image(*partitions: tuple[list[int], int]) -> Any:
    """Of one topic: replicas and leader of each partition."""
    found = {at: SimpleNamespace(replicas=replicas, leader=leader) for at, (replicas, leader) in enumerate(partitions)}
    return SimpleNamespace(topics={"t": SimpleNamespace(partitions=found)})


class Rig:
    def __init__(self) -> None:
        self.clock = Clock()
        self.traffic = Traffic()
        self.image = image()
        self.meter = LoadMeter(node_id=1, traffic=lambda: self.traffic, image=lambda: self.image, clock=self.clock)


def test_rates_are_those_since_the_last_time() -> None:
    rig = Rig()
    rig.clock.at_ms += 2_000
    rig.traffic = Traffic(bytes_in=4_000, bytes_out=6_000, requests=20)
    assert rig.meter() == Load(bytes_in_per_s=2_000, bytes_out_per_s=3_000, requests_per_s=10)

    rig.clock.at_ms += 5_000

    assert rig.meter() == Load()


def test_asked_twice_at_a_time_it_says_the_same() -> None:
    rig = Rig()
    rig.clock.at_ms += 1_000
    rig.traffic = Traffic(requests=5)

    assert rig.meter() == rig.meter() == Load(requests_per_s=5)


def test_partitions_are_counted_again_when_the_metadata_changes() -> None:
    rig = Rig()
    rig.image = image(([1, 2], 1), ([2, 1], 2), ([2, 3], 2))
    assert rig.meter()[3:] == (2, 1)

    rig.image = image(([1, 2], 1), ([2, 1], 1))

    assert rig.meter()[3:] == (2, 2)


def test_traffic_is_that_of_all_connections() -> None:
    connections = [
        SimpleNamespace(bytes_in=1, bytes_out=2, requests=3),
        SimpleNamespace(bytes_in=10, bytes_out=0, requests=1),
    ]

    assert Traffic(100, 100, 100).with_that_of(cast(list[Connection], connections)) == Traffic(111, 102, 104)
