"""A node's turns at the processor are short where it is the only one on its machine."""

from __future__ import annotations

import dataclasses
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.config import BrokerConfig
from ottla.metadata.image import BrokerImage, Endpoint, MetadataImage, empty_image
from ottla.runtime import turns
from ottla.runtime.turns import Turns, ask_for, turn_us
from tests.cluster.processes import ClusterNode
from tests.interop.node_process import NodeProcess
from tests.interop.waiting import eventually
from tests.ports import free_port

SHORT_US = 100
OWN = BrokerConfig(node_id=1, address="10.0.0.1", turn_us=SHORT_US)


def broker(broker_id: int, host: str, *, fenced: bool = False) -> BrokerImage:
    endpoint = Endpoint(name="PLAINTEXT", host=host, port=9092, security_protocol=0)
    return BrokerImage(
        broker_id=broker_id,
        broker_epoch=1,
        incarnation_id=bytes(16),
        endpoints=(endpoint,),
        rack=None,
        fenced=fenced,
    )


class Cluster:
    """What the metadata says, and what the node of it asked the system for."""

    def __init__(self, config: BrokerConfig = OWN) -> None:
        self.brokers: list[BrokerImage] = []
        self.turns = Turns(config, self._image)

    def _image(self) -> MetadataImage:
        return dataclasses.replace(empty_image({}), brokers={each.broker_id: each for each in self.brokers})

    def choose(self, *brokers: BrokerImage) -> None:
        self.brokers = list(brokers)
        self.turns.choose()


@pytest.fixture
def usual_us() -> int:
    """What everybody has who asks for nothing."""
    told_us = turn_us()
    if not told_us:
        pytest.skip("this kernel does not tell how long turns are")
    return told_us


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    told: list[int] = []
    monkeypatch.setattr(turns, "ask_for", told.append)
    return told


def test_a_node_by_itself_asks_for_short_turns_once(asked: list[int]) -> None:
    cluster = Cluster()

    cluster.choose()
    cluster.choose(broker(1, "10.0.0.1"))

    assert asked == [SHORT_US]


def test_nodes_on_other_machines_change_nothing(asked: list[int]) -> None:
    Cluster().choose(broker(1, "10.0.0.1"), broker(2, "10.0.0.2"), broker(3, "10.0.0.3"))

    assert asked == [SHORT_US]


def test_a_node_that_comes_to_the_same_machine_ends_short_turns_until_it_has_gone(asked: list[int]) -> None:
    cluster = Cluster()
    own = broker(1, "10.0.0.1")

    cluster.choose(own)
    cluster.choose(own, broker(2, "10.0.0.1"))
    cluster.choose(own, broker(2, "10.0.0.1"), broker(3, "10.0.0.3"))
    cluster.choose(own, broker(2, "10.0.0.1", fenced=True))

    assert asked == [SHORT_US, 0, SHORT_US]


def test_nothing_is_asked_for_where_turns_are_left_to_the_system(asked: list[int]) -> None:
    Cluster(BrokerConfig(node_id=1, turn_us=0)).choose()

    assert asked == []


def test_the_system_is_asked_for_the_thread_that_asks_alone(usual_us: int) -> None:
    def there() -> tuple[int, int, int, int]:
        ask_for(SHORT_US)
        short_us = turn_us()
        os.setpriority(os.PRIO_PROCESS, 0, 3)
        ask_for(2 * SHORT_US)
        longer_us, niceness = turn_us(), os.getpriority(os.PRIO_PROCESS, 0)
        ask_for(0)
        return short_us, longer_us, niceness, turn_us()

    assert in_a_thread(there) == (SHORT_US, 2 * SHORT_US, 3, usual_us)
    assert turn_us() == usual_us


def test_one_that_steps_aside_for_others_goes_on_doing_so() -> None:
    def there() -> int:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        ask_for(SHORT_US)
        return os.sched_getscheduler(0)

    assert in_a_thread(there) == os.SCHED_IDLE


def test_a_system_that_numbers_its_calls_otherwise_is_not_asked(monkeypatch: pytest.MonkeyPatch, usual_us: int) -> None:
    def there() -> tuple[int, int]:
        with monkeypatch.context() as elsewhere:
            elsewhere.setattr(sys, "platform", "darwin")
            ask_for(SHORT_US)
            told_us = turn_us()
        return told_us, turn_us()

    assert in_a_thread(there) == (0, usual_us)


def test_a_node_that_was_just_started_has_short_turns(tmp_path: Path, usual_us: int) -> None:
    with NodeProcess(tmp_path) as node:
        eventually(lambda: turn_us(node.pid) == BrokerConfig().turn_us, what="short turns")

    assert BrokerConfig().turn_us < usual_us


def test_a_node_has_the_turns_of_everybody_once_another_one_has_joined_it_there(tmp_path: Path, usual_us: int) -> None:
    first = ClusterNode(tmp_path / "1", 1, (), free_port())
    second = ClusterNode(tmp_path / "2", 2, (first.cluster_address,), free_port())
    with first:
        eventually(lambda: turn_us(first.pid) == BrokerConfig().turn_us, what="short turns")
        with second:
            eventually(lambda: turn_us(first.pid) == turn_us(second.pid) == usual_us, what="usual turns")


def in_a_thread(what: Callable[[], Any]) -> Any:
    """What is asked for ends with it."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(what()))
    thread.start()
    thread.join()
    return results[0]
