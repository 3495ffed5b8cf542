"""How the figures of the Spark benchmark are judged."""

from bench.spark_report import Figures, Run, as_json, table


def run(workload: str, system: str, repetition: int = 0, **figures: float | str) -> Run:
    found: Figures = dict(figures)
    return Run(workload=workload, system=system, repetition=repetition, figures=found, others=0.5)


def row(runs: list[Run]) -> str:
    return table(runs).splitlines()[2]


def test_a_rate_is_the_median_and_is_compared_with_the_better_of_the_others() -> None:
    rates = {"ottla": (1.0e6, 2.0e6, 3.0e6), "kafka": (0.5e6, 0.5e6, 0.5e6), "kafka-tuned": (0.8e6, 0.8e6, 0.8e6)}
    runs = [
        run("read_100b", system, number, rate=rate)
        for system, several in rates.items()
        for number, rate in enumerate(several)
    ]

    assert "2,000,000 rows/s" in row(runs)
    assert "| 2.50 | ≥ 1,900,000: met |" in row(runs)


def test_a_time_must_not_be_longer_than_its_goal() -> None:
    assert "| 0.96 | ≤ 160: met |" in row([run("micro", "ottla", p50_ms=160.0), run("micro", "kafka", p50_ms=154.0)])
    assert "≤ 160: MISSED" in row([run("micro", "ottla", p50_ms=161.0)])


def test_compressed_topics_are_to_be_read_faster_than_by_the_others() -> None:
    assert "ahead: MISSED" in row([run("read_lz4", "ottla", rate=1.0), run("read_lz4", "kafka", rate=2.0)])
    assert "ahead" not in row([run("read_lz4", "ottla", rate=1.0)])


def test_a_failure_is_told_and_meets_no_goal() -> None:
    found = row([run("first", "ottla", error="no Java\nat all"), run("first", "kafka", first_s=10.0)])

    assert "failed: no Java |" in found
    assert "met" not in found


def test_programs_get_every_run() -> None:
    found = as_json([run("first", "ottla", first_s=9.0), run("first", "ottla", 1, first_s=11.0)])

    assert found["median"]["first"]["ottla"]["first_s"] == 10.0
    assert [one["repetition"] for one in found["runs"]] == [0, 1]
