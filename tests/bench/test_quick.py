"""A message that has become dearer is seen, by its ratio to Kafka's in the same run."""

from pathlib import Path

import pytest
from bench.quick import OURS, THEIRS, TOLERANCE_ALL, TOLERANCE_ONE, compare, load, ratios, save

COMMITTED = {"produce_1conn": 0.6, "produce_200conn": 0.12, "consume_1kb": 1.25}


def dearer(times: float, *workloads: str) -> dict[str, float]:
    return {name: ratio * (times if name in workloads else 1.0) for name, ratio in COMMITTED.items()}


def test_the_same_ratios_are_no_regression() -> None:
    verdict = compare(COMMITTED, COMMITTED)

    assert not verdict.is_regression
    assert verdict.lines[-1] == "all together       x 1.00"


def test_noise_within_the_tolerance_is_no_regression() -> None:
    assert not compare(dearer(TOLERANCE_ONE - 0.01, "consume_1kb"), COMMITTED).is_regression
    assert not compare(dearer(TOLERANCE_ALL - 0.01, *COMMITTED), COMMITTED).is_regression


@pytest.mark.parametrize("workload", COMMITTED)
def test_one_workload_that_is_much_dearer_is_a_regression(workload: str) -> None:
    verdict = compare(dearer(TOLERANCE_ONE + 0.01, workload), COMMITTED)

    assert verdict.is_regression
    assert [line.split()[0] for line in verdict.lines if "a regression" in line] == [workload]


def test_everything_a_little_dearer_is_a_regression() -> None:
    verdict = compare(dearer(TOLERANCE_ALL + 0.01, *COMMITTED), COMMITTED)

    assert verdict.is_regression
    assert "all together       x 1.16, a regression (more than 1.15)" in verdict.lines


def test_a_gain_elsewhere_does_not_hide_one_that_is_much_dearer() -> None:
    now = {"produce_1conn": 0.6 * 2, "produce_200conn": 0.12 / 2, "consume_1kb": 1.25}

    assert compare(now, COMMITTED).is_regression


def test_cheaper_is_no_regression() -> None:
    assert not compare(dearer(0.5, *COMMITTED), COMMITTED).is_regression


def test_a_slow_day_of_the_machine_is_no_regression() -> None:
    """Both brokers take twice the CPU: the ratio stands."""
    summary = {
        name: {OURS: {"broker_cpu_us": 20 * ratio}, THEIRS: {"broker_cpu_us": 20.0}}
        for name, ratio in COMMITTED.items()
    }

    assert not compare(ratios(summary), COMMITTED).is_regression


def test_without_kafka_there_is_nothing_to_compare_with() -> None:
    alone = ratios({name: {OURS: {"broker_cpu_us": 1000.0}} for name in COMMITTED})

    assert alone == {}
    assert not compare(alone, COMMITTED).is_regression


def test_a_run_that_failed_has_no_ratio() -> None:
    assert ratios({"consume_1kb": {OURS: {"error": "refused"}, THEIRS: {"broker_cpu_us": 1.0}}}) == {}


def test_ratios_are_kept_for_each_kind_of_machine(tmp_path: Path) -> None:
    path = tmp_path / "quick.json"

    save(path, "2 x Some CPU", COMMITTED)
    save(path, "64 x Another CPU", {"consume_1kb": 0.5})

    assert load(path, "2 x Some CPU") == COMMITTED
    assert load(path, "64 x Another CPU") == {"consume_1kb": 0.5}
    assert load(path, "4 x Unknown") == {}
