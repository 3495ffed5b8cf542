"""The controller hears of those whom gossip takes for dead, and of those whose process has ended."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from ottla.errors import BrokerError, ErrorCode
from ottla.runtime import hints
from ottla.runtime.hints import Hints


class Metadata:
    def __init__(self) -> None:
        self.is_active = False
        self.image = SimpleNamespace(brokers={1: None, 2: None})
        self.told: list[frozenset[int]] = []
        self.ended: list[frozenset[int]] = []
        self.listeners: list[Callable[[bool], None]] = []
        self.refuses = False

    def on_active(self, listener: Callable[[bool], None]) -> None:
        self.listeners.append(listener)

    def become(self, is_active: bool) -> None:
        self.is_active = is_active
        for listener in self.listeners:
            listener(is_active)

    def call(self, decide: Callable[[Any, Any, int], object]) -> None:
        if self.refuses:
            raise BrokerError(ErrorCode.NOT_CONTROLLER)
        decide(SimpleNamespace(suspect=self.suspect), None, 0)

    def suspect(self, dead: frozenset[int], ended: frozenset[int]) -> None:
        self.told.append(dead)
        self.ended.append(ended)


class Gossip:
    def __init__(self) -> None:
        self.gone: frozenset[int] = frozenset()
        self.have_ended: frozenset[int] = frozenset()
        self.known = {1, 2}
        self.listeners: list[Callable[[object], None]] = []

    def on_change(self, listener: Callable[[object], None]) -> None:
        self.listeners.append(listener)

    def dead(self) -> frozenset[int]:
        return self.gone

    def ended(self) -> frozenset[int]:
        return self.have_ended

    def member(self, node_id: int) -> object | None:
        return node_id if node_id in self.known else None

    def change(self, *gone: int) -> None:
        self.gone = frozenset(gone)
        for listener in self.listeners:
            listener(None)


class Timers:
    def __init__(self) -> None:
        self.actions: list[tuple[float, Callable[[], None]]] = []

    def after_ms(self, delay_ms: float, action: Callable[[], None]) -> None:
        self.actions.append((delay_ms, action))


class Rig:
    def __init__(self) -> None:
        self.metadata: Any = Metadata()
        self.gossip: Any = Gossip()
        self.timers: Any = Timers()
        make: Any = Hints
        self.hints: Hints = make(self.metadata, self.gossip, self.timers)


def test_only_the_active_controller_is_told() -> None:
    rig = Rig()
    rig.gossip.change(2)
    assert rig.metadata.told == []

    rig.metadata.become(True)

    assert rig.metadata.told == [frozenset({2})]


def test_it_is_told_when_something_changes_and_once() -> None:
    rig = Rig()
    rig.metadata.become(True)

    for gone in ((2,), (2,), ()):
        rig.gossip.change(*gone)

    assert rig.metadata.told == [frozenset({2}), frozenset()]


def test_a_new_term_is_told_again() -> None:
    rig = Rig()
    rig.metadata.become(True)
    rig.gossip.change(2)

    rig.metadata.become(False)
    rig.metadata.become(True)

    assert rig.metadata.told == [frozenset({2})] * 2


def test_a_controller_that_resigns_meanwhile_is_no_problem() -> None:
    rig = Rig()
    rig.metadata.become(True)
    rig.metadata.refuses = True
    rig.gossip.change(2)
    rig.metadata.refuses = False

    rig.gossip.change(2)

    assert rig.metadata.told == [frozenset({2})]


def test_who_is_registered_and_was_never_met_counts_after_a_while() -> None:
    rig = Rig()
    rig.gossip.known = {1}
    rig.metadata.become(True)
    ((delay_ms, have_met),) = rig.timers.actions
    assert (delay_ms, rig.metadata.told) == (hints.MEETING_MS, [])

    have_met()

    assert rig.metadata.told == [frozenset({2})]


def test_a_process_that_has_ended_is_told_also_of_a_node_that_was_suspected_before() -> None:
    rig = Rig()
    rig.metadata.become(True)
    rig.gossip.change(2)
    rig.gossip.have_ended = frozenset({2})

    for _ in range(2):
        rig.hints.tell()

    assert rig.metadata.told == [frozenset({2})] * 2
    assert rig.metadata.ended == [frozenset(), frozenset({2})]
