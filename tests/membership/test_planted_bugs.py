"""The checkers are checked: with a rule of the protocol broken on purpose they complain, within a few seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from ottla.config.membership import GossipConfig
from ottla.membership import Change
from ottla.membership.judge import Judge
from ottla.membership.member import Member
from ottla.membership.wire import Alive, Entry, Failed, Suspect
from tests.membership.checkers import always, knowledge_only_grows, no_false_failures
from tests.membership.simulation import STORM, Simulation, formed, suspicious_sleeper

SEEDS = range(4)


def storm(seed: int) -> Simulation:
    simulation = formed(seed, 5, STORM)
    simulation.run(40_000)
    return simulation


def storm_with_a_death(seed: int) -> Simulation:
    simulation = formed(seed, 5, STORM)
    simulation.crash(2)
    simulation.run(10_000)
    return simulation


def found(run: Callable[[int], Simulation], check: Callable[[Simulation], Iterator[str]]) -> bool:
    return any(list(check(run(seed))) for seed in SEEDS)


def test_without_a_planted_bug_nobody_complains() -> None:
    for run in (storm, storm_with_a_death):
        for seed in SEEDS:
            simulation = run(seed)
            assert simulation.history
            assert [*no_false_failures(simulation), *always(simulation)] == []


def test_a_node_that_does_not_deny_that_it_is_dead_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Judge, "refute", lambda judge, incarnation: None)
    assert found(storm, no_false_failures)


def test_old_good_news_that_is_believed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Judge._hear_alive

    def careless(judge: Judge, held: Member | None, entry: Alive, now_ms: int) -> None:
        if held is not None and held.run_id == entry.run_id:
            judge._revive(held, entry, now_ms)
        else:
            original(judge, held, entry, now_ms)

    monkeypatch.setattr(Judge, "_hear_alive", careless)
    assert found(storm_with_a_death, knowledge_only_grows)


def test_old_bad_news_that_is_believed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Judge.hear

    def careless(judge: Judge, entry: Entry, now_ms: int) -> None:
        held = judge._roster.get(entry.node_id)
        if held is not None and held.run_id == entry.run_id and isinstance(entry, Suspect | Failed):
            judge._hear_bad_news(held, entry, now_ms)
        else:
            original(judge, entry, now_ms)

    monkeypatch.setattr(Judge, "hear", careless)
    assert found(storm_with_a_death, knowledge_only_grows)


def test_a_prober_that_asks_nobody_for_help_is_found() -> None:
    simulation = formed(1, 5, config=GossipConfig(indirect_probes=0))
    simulation.split([0], [1])
    simulation.run(10_000)
    assert simulation.history


def test_a_node_that_takes_its_own_sleep_for_others_silence_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Judge, "postpone", lambda judge, by_ms: None)
    monkeypatch.setattr("ottla.membership.prober.Prober.postpone", lambda prober, by_ms: None)
    assert 2 in suspicious_sleeper(seed=1).times(Change.FAILED, 3)
