"""What the benchmarks say of their figures."""

from bench.goals import missed
from bench.plan import Run
from bench.report import line, medians, table


def _run(system: str, rate: float, cpu: float, *, repetition: int = 0, workload: str = "produce_200conn") -> Run:
    figures = {"rate": rate, "p99_ms": 5.0, "broker_cpu_us": cpu}
    return Run(workload=workload, system=system, repetition=repetition, figures=figures)


def test_the_median_of_the_repetitions_is_told() -> None:
    runs = [_run("ottla", rate, 10, repetition=number) for number, rate in enumerate((70_000, 10, 60_000))]

    assert medians(runs)["produce_200conn"]["ottla"]["rate"] == 60_000


def test_the_smallest_and_the_largest_repetition_are_told_beside_the_median() -> None:
    runs = [_run("ottla", rate, 10, repetition=number) for number, rate in enumerate((70_000, 50_000, 60_000))]

    assert "60,000/s [50,000-70,000]" in line(medians(runs)["produce_200conn"]["ottla"])


def test_a_repetition_that_failed_is_not_hidden_by_those_that_did_not() -> None:
    failed = Run(workload="produce_200conn", system="ottla", repetition=1, figures={"error": "refused\ndetails"})

    summary = medians([_run("ottla", 60_000, 10), failed])

    assert line(summary["produce_200conn"]["ottla"]) == "failed: refused"


def test_a_driver_that_was_killed_has_said_nothing() -> None:
    assert line({"error": ""}) == "failed: without a word"


def test_ratios_compare_brokers_that_promise_the_same() -> None:
    told = table([_run("ottla", 60_000, 15), _run("kafka-durable", 6_000, 150)])

    assert "| ottla / kafka-durable |" in told
    assert "| 200 producers, one record at a time | 10.00 [10.00-10.00] | 0.10 [0.10-0.10] | 1.00" in told


def test_a_busy_machine_is_told() -> None:
    busy = Run(workload="memory", system="ottla", repetition=0, figures={"broker_rss_mb": 50.0}, others=500.0)

    assert "Other work took 500.0 of " in table([busy])
    assert "Other work" not in table([_run("ottla", 60_000, 15)])


def test_missed_goals_are_named_with_figure_and_bound() -> None:
    assert missed("ottla", "produce_200conn", {"rate": 60_000, "p99_ms": 5, "broker_cpu_us": 15}) == []
    assert missed("ottla", "produce_200conn", {"rate": 40_000, "p99_ms": 5, "broker_cpu_us": 25}) == [
        "rate 40,000 (goal ≥ 50,000)",
        "broker_cpu_us 25 (goal ≤ 20)",
    ]


def test_other_brokers_have_no_goals() -> None:
    assert missed("kafka", "produce_200conn", {"rate": 1.0, "p99_ms": 500, "broker_cpu_us": 2500}) == []
