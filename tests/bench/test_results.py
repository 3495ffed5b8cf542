"""Items are measured at different hours and kept in one file."""

from dataclasses import replace
from pathlib import Path

from bench.results import load, merge, summary, was_busy

from tests.bench.canned import item, request, run


def test_an_item_that_is_measured_again_replaces_itself_alone(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    merge(path, "requests", item("requests", [run("produce_1conn", "ottla", **request(1_000, 100))]))
    merge(path, "growth", item("growth", [run("growth_batch_1", "ottla", **request(500, 100))]))

    merge(path, "requests", item("requests", [run("produce_1conn", "ottla", **request(4_000, 90))]))

    results = load(path)
    assert summary(results["requests"])["produce_1conn"]["ottla"]["rate"] == 4_000
    assert summary(results["growth"])["growth_batch_1"]["ottla"]["rate"] == 500


def test_nothing_measured_yet_is_no_error(tmp_path: Path) -> None:
    assert load(tmp_path / "results.json") == {}


def test_an_item_knows_how_busy_the_machine_was_with_other_work() -> None:
    quiet = item("requests", [run("produce_1conn", "ottla", others=0.0), run("produce_1conn", "ottla", others=0.5)])
    busy = item("requests", [run("produce_1conn", "ottla", others=1.5)])

    assert not was_busy(quiet)
    assert quiet["others"] == 0.25
    assert was_busy(busy)
    assert not was_busy({**busy, "others": None})


def test_an_item_knows_what_the_host_took() -> None:
    runs = [run("produce_1conn", "ottla"), replace(run("produce_1conn", "ottla"), stolen=0.03, tries=3)]
    measured = item("requests", runs)

    assert measured["stolen"] == 0.015
    assert [(one["stolen"], one["tries"]) for one in measured["runs"]] == [(0.0, 1), (0.03, 3)]


def test_an_error_is_told_without_paths_of_the_machine() -> None:
    error = "/somewhere/bench/build/rdload --mode produce\nrdload: delivery: Broker: Not enough in-sync replicas"
    failed = item("requests", [run("produce_1conn", "ottla", error=error)])

    assert failed["runs"][0]["figures"] == {"error": "rdload: delivery: Broker: Not enough in-sync replicas"}


def test_figures_are_rounded_for_a_file_that_can_be_read() -> None:
    measured = item("requests", [run("produce_1conn", "ottla", rate=12345.678, requests=12345678)])

    assert measured["runs"][0]["figures"] == {"rate": 12346.0, "requests": 12345678}
