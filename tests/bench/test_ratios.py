"""Ratios are those within a repetition."""

from bench.ratios import Ratio, ratio
from bench.report import medians

from tests.bench.canned import run


def test_a_repetition_that_one_of_the_two_lacks_is_left_out_and_moves_no_other() -> None:
    runs = [run("batches_1kb", "ottla", repetition=number, rate=rate) for number, rate in enumerate((2.0, 40.0, 600.0))]
    runs += [run("batches_1kb", "kafka", repetition=number, rate=rate) for number, rate in ((0, 1.0), (2, 100.0))]
    cells = medians(runs)["batches_1kb"]

    assert ratio(cells["ottla"], cells["kafka"], "rate") == Ratio(middle=4.0, quarters=(2.0, 6.0), above_1=2, pairs=2)


def test_where_no_repetition_has_both_there_is_no_ratio() -> None:
    runs = [run("batches_1kb", system, repetition=number, rate=1.0) for number, system in enumerate(("ottla", "kafka"))]
    cells = medians(runs)["batches_1kb"]

    assert ratio(cells["ottla"], cells["kafka"], "rate") is None


def test_figures_of_one_run_alone_are_compared_as_they_are() -> None:
    found = ratio({"rate": 3.0}, {"rate": 2.0}, "rate")

    assert found is not None
    assert (found.middle, found.pairs) == (1.5, 1)
