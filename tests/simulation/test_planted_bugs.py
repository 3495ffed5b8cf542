"""Each known bug is found within a bounded number of seeds: the simulator and its checkers can fail."""

import pytest

from ottla.testing.checkers import (
    Checker,
    CommittedOffsetsSurvive,
    MonotonicHighWatermark,
    NoAnomalies,
    NoDuplicates,
    NoLostWrites,
    NoVanishedReads,
    SameOffsets,
)
from ottla.testing.simulation import Faults, SimulationFailedError, Workload, simulate
from tests.simulation.planted_bugs import (
    Bug,
    acknowledge_before_the_sync,
    answer_groups_before_the_sync,
    forget_producers,
    serve_beyond_the_high_watermark,
    trust_the_page_cache,
)

SEEDS_MAX = 24
CROWD = Workload(producers=4, partitions=1, consumers=4, members=2)
"""Many on one partition: what was wrongly shown is soon missed by somebody."""

Rules = tuple[type[Checker], ...]


@pytest.mark.parametrize(
    ("bug", "rules"),
    [
        pytest.param(acknowledge_before_the_sync, (NoLostWrites,), marks=pytest.mark.pure),
        pytest.param(
            serve_beyond_the_high_watermark,
            (MonotonicHighWatermark, NoVanishedReads, SameOffsets, NoAnomalies),
            marks=pytest.mark.pure,
        ),
        pytest.param(forget_producers, (NoDuplicates,), marks=pytest.mark.pure),
        (answer_groups_before_the_sync, (CommittedOffsetsSurvive,)),
    ],
)
def test_a_planted_bug_is_found(bug: Bug, rules: Rules, monkeypatch: pytest.MonkeyPatch) -> None:
    bug(monkeypatch)
    assert any(breaks(rules, seed) for seed in range(SEEDS_MAX))


def breaks(rules: Rules, seed: int) -> bool:
    try:
        simulate(seed, CROWD, *rules, faults=Faults.crashes(), virtual_seconds=15)
    except SimulationFailedError as found:
        names = {rule.__name__ for rule in rules}
        return any(violation.rule in names for violation in found.violations)
    return False


FAILING_SYNCS = Faults(failed_sync=3, power_loss=4, slow_disk=1, pause_s_max=2.0)


def test_a_recovery_that_trusts_the_page_cache_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was there once. Whatever is lost shows: if it is the topic itself, no client ever gets an answer again."""
    trust_the_page_cache(monkeypatch)
    assert any(fails(seed) for seed in range(SEEDS_MAX))


def fails(seed: int) -> bool:
    try:
        simulate(seed, CROWD, faults=FAILING_SYNCS, virtual_seconds=15)
    except SimulationFailedError:
        return True
    return False
