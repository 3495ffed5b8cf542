"""Two trees are compared window by window, and the command for it runs real nodes."""

from pathlib import Path

import pytest

from bench import pairs
from tests.bench.canned import request, run

HERE = Path(__file__).parents[2]


def test_what_counts_is_the_ratio_of_two_windows_side_by_side() -> None:
    pace = (1.0, 0.5, 1.0, 0.6, 0.9)
    """Of the machine: the medians of the two trees would be those of different moments."""
    runs = [run("w", "a", repetition=at, **request(100 * now, 10 / now)) for at, now in enumerate(pace)]
    runs += [run("w", "b", repetition=at, **request(110 * now, 9 / now)) for at, now in enumerate(pace)]
    rate, cpu, *_ = pairs.paired(runs, "a", "b")
    assert (rate.figure, round(rate.ratio.middle, 6), rate.ratio.above_1, rate.ratio.pairs) == ("rate", 1.1, 5, 5)
    assert (cpu.figure, round(cpu.ratio.middle, 6), cpu.ratio.above_1) == ("broker_cpu_us", 0.9, 0)
    assert [round(quarter, 6) for quarter in rate.ratio.quarters] == [1.1, 1.1]
    assert "x 1.100 [1.100-1.100], above 1 in 5 of 5" in str(rate)


def test_the_quarters_leave_out_windows_that_were_disturbed() -> None:
    times = (0.2, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 9.0)
    runs = [run("w", "a", repetition=at, rate=100.0) for at in range(len(times))]
    runs += [run("w", "b", repetition=at, rate=100.0 * each) for at, each in enumerate(times)]
    (rate,) = pairs.paired(runs, "a", "b")
    assert [round(quarter, 6) for quarter in rate.ratio.quarters] == [1.1, 1.4]
    assert (round(rate.ratio.middle, 6), rate.ratio.above_1) == (1.25, 6)


def test_a_window_that_failed_takes_its_partner_along() -> None:
    runs = [run("w", "a", repetition=at, rate=100.0) for at in range(3)]
    runs += [run("w", "b", repetition=0, rate=50.0), run("w", "b", repetition=1, error="gone")]
    (rate,) = pairs.paired(runs, "a", "b")
    assert (rate.ratio.middle, rate.ratio.pairs) == (0.5, 1)


def test_nodes_of_two_trees_are_run_in_turns(capsys: pytest.CaptureFixture[str]) -> None:
    assert pairs.main([str(HERE), str(HERE), "produce_1conn", "--pairs", "2", "--seconds", "0.2"]) == 0
    rate, *_ = capsys.readouterr().out.splitlines()
    assert rate.startswith("produce_1conn            rate")
    assert rate.endswith(" of 2")


def test_a_directory_that_is_no_checkout_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        pairs.main([str(tmp_path), str(HERE), "produce_1conn"])
    assert "is no checkout of this project" in capsys.readouterr().err
