"""What results amount to."""

import pytest

from ottla.cli.bench.broker import Usage
from ottla.cli.bench.histogram import Histogram
from ottla.cli.bench.runs import Measured, shares


@pytest.mark.parametrize(
    ("total", "parts", "expected"), [(10, 2, [5, 5]), (10, 3, [4, 3, 3]), (2, 5, [1, 1]), (1, 1, [1])]
)
def test_work_is_shared_evenly(total: int, parts: int, expected: list[int]) -> None:
    assert shares(total, parts) == expected


def test_rates_and_cost_per_record() -> None:
    measured = Measured(
        mode="produce",
        records=1_000,
        value_bytes=100_000,
        seconds=0.5,
        latencies=Histogram({100: 999, 200: 1}),
        before=Usage(cpu_us=10_000, rss_bytes=1),
        after=Usage(cpu_us=30_000, rss_bytes=50_000_000),
    ).as_json()

    assert measured["records_per_second"] == 2_000
    assert measured["mb_per_second"] == 0.2
    assert (measured["p50_ms"], measured["p99_ms"], measured["p99_9_ms"]) == (0.1, 0.1, 0.1)
    assert measured["broker_cpu_us_per_record"] == 20
    assert measured["broker_rss_mb"] == 50
