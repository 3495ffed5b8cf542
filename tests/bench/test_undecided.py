"""Rows whose repetitions contradict each other are measured more often."""

from pathlib import Path

import pytest
from bench.fleet import Fleet
from bench.items import ITEM
from bench.plan import Plan, Run
from bench.undecided import MORE, more, undecided

from bench import campaign, results
from tests.bench.canned import MACHINE, item, request, run

PLAN = ITEM["requests"].plan("normal")


def both(workload: str, ours: list[float], theirs: list[float], *, cpu_us: list[float] | None = None) -> list[Run]:
    """Durable brokers at these rates, and those in the page cache, of which Ottla takes so much CPU, Kafka 100 µs."""
    cheaper = [50.0] * len(ours)
    return [
        one
        for repetition, (our, their, cost) in enumerate(zip(ours, theirs, cpu_us or cheaper, strict=True))
        for one in (
            run(workload, "ottla", repetition=repetition, **request(our, 100)),
            run(workload, "kafka-durable", repetition=repetition, **request(their, 100)),
            run(workload, "ottla-os", repetition=repetition, **request(our, cost)),
            run(workload, "kafka", repetition=repetition, **request(their, 100)),
        )
    ]


def test_a_row_is_undecided_when_its_repetitions_disagree_on_who_is_ahead() -> None:
    clear = both("produce_50conn", [3, 3, 3], [1, 2, 2])
    behind = both("produce_100conn", [1, 1, 1], [2, 2, 2])
    close = both("produce_200conn", [3, 1, 3], [2, 2, 2])

    assert undecided([*clear, *behind, *close]) == ["produce_200conn"]


def test_without_syncs_cpu_is_what_counts() -> None:
    assert undecided(both("produce_50conn", [3, 3], [1, 1], cpu_us=[99, 101])) == ["produce_50conn"]
    assert undecided(both("produce_50conn", [3, 3], [1, 1], cpu_us=[101, 101])) == []


def test_who_runs_alone_or_has_failed_decides_nothing() -> None:
    alone = [run("produce_50conn", "ottla", repetition=number, **request(number + 1, 100)) for number in range(3)]
    failed = [run("produce_50conn", "kafka-durable", repetition=number, error="gone") for number in range(3)]

    assert undecided([*alone, *failed]) == []


def test_an_undecided_row_gets_so_many_repetitions_and_no_more() -> None:
    rest = more(PLAN, both("produce_50conn", [3, 1, 3], [2, 2, 2]))
    assert rest is not None
    assert (rest.workloads, rest.first_repetition, rest.repetitions) == (["produce_50conn"], 3, MORE)

    rates = [3.0, 1.0] * 4
    rest = more(PLAN, both("produce_50conn", rates, [2.0] * len(rates)))
    assert rest is not None
    assert (rest.first_repetition, rest.repetitions) == (8, 1)

    rates = [3.0, 1.0, 3.0] * 3
    assert more(PLAN, both("produce_50conn", rates, [2.0] * len(rates))) is None
    assert more(PLAN, both("produce_50conn", [3, 3, 3], [2, 2, 2])) is None


def test_an_item_goes_on_with_the_rows_that_its_repetitions_do_not_decide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Plan] = []

    def measured(fleet: Fleet, plan: Plan, *, done: campaign.Done) -> None:
        asked.append(plan)
        theirs = 2.0 * plan.repetitions
        for one in both("produce_50conn", [theirs + 1, theirs - 1, theirs + 1], [theirs] * 3):
            done(one)

    monkeypatch.setattr(campaign, "run_on", measured)
    campaign.measure(Fleet(tmp_path), ITEM["requests"], PLAN, "normal", tmp_path / "out")

    assert [(plan.first_repetition, list(plan.workloads)) for plan in asked] == [
        (0, list(PLAN.workloads)),
        (3, ["produce_50conn"]),
    ]
    asked.clear()
    campaign.measure(Fleet(tmp_path), ITEM["requests"], PLAN, "short", tmp_path / "out")
    assert [plan.first_repetition for plan in asked] == [0]


def test_results_that_are_there_are_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = both("produce_50conn", [3, 1, 3], [2, 2, 2])
    results.merge(tmp_path / "results.json", "requests", item("requests", there))
    monkeypatch.setattr(results, "machine", lambda: MACHINE)
    asked: list[Plan] = []
    monkeypatch.setattr(campaign, "run_on", lambda fleet, plan, *, done: asked.append(plan))

    known = results.runs_here(tmp_path, "requests", PLAN)
    runs = campaign.measure(Fleet(tmp_path), ITEM["requests"], PLAN, "normal", tmp_path, there=known)

    assert len(runs) == len(there)
    assert [plan.first_repetition for plan in asked] == [3]


def test_results_of_another_machine_or_of_other_windows_are_not_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = both("produce_50conn", [3, 1, 3], [2, 2, 2])
    results.merge(tmp_path / "results.json", "requests", item("requests", there))

    monkeypatch.setattr(results, "machine", lambda: {**MACHINE, "cpu": "Another CPU"})
    with pytest.raises(results.OtherResultsError, match="on another machine"):
        results.runs_here(tmp_path, "requests", PLAN)
    with pytest.raises(results.OtherResultsError, match=r"windows of 1 s"):
        results.runs_here(tmp_path, "requests", ITEM["requests"].plan("short"))
    with pytest.raises(results.OtherResultsError):
        results.runs_here(tmp_path, "growth", PLAN)
