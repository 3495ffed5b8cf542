"""One item, measured for real against a node for a moment."""

from pathlib import Path

import pytest
from bench.fleet import Fleet
from bench.items import ITEM
from bench.plan import Plan, Run
from bench.servers import available
from bench.setting import Windows

from bench import apache_kafka, campaign, results

PLAN = Plan(
    workloads=("produce_1conn",),
    systems=("ottla-os",),
    windows=Windows(seconds=0.2, warmup_s=0.1),
    repetitions=2,
    warm_gb=0,
)


def test_an_item_leaves_results_and_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.runner.DATA", tmp_path)
    with Fleet(tmp_path / "servers") as fleet:
        campaign.measure(fleet, ITEM["requests"], PLAN, "short", tmp_path / "out")

    measured = results.load(tmp_path / "out" / "results.json")["requests"]
    assert measured["complete"]
    assert [one["repetition"] for one in measured["runs"]] == [0, 1]
    assert results.summary(measured)["produce_1conn"]["ottla-os"]["rate"] > 100
    assert "## One record at a time" in (tmp_path / "out" / "README.md").read_text()


def test_an_item_that_is_interrupted_is_kept_as_far_as_it_came(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped_after_one(fleet: Fleet, plan: Plan, *, done: campaign.Done) -> None:
        done(Run(workload="produce_1conn", system="ottla", repetition=0, figures={"rate": 4_000.0}))
        raise SystemExit(143)

    monkeypatch.setattr(campaign, "run_on", stopped_after_one)

    with pytest.raises(SystemExit):
        campaign.measure(Fleet(tmp_path), ITEM["requests"], PLAN, "short", tmp_path / "out")

    measured = results.load(tmp_path / "out" / "results.json")["requests"]
    assert not measured["complete"]
    assert len(measured["runs"]) == 1


def test_without_java_ottla_runs_alone_and_the_reason_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")

    assert available(("ottla", "kafka-durable", "kafka")) == ["ottla"]
    assert "`java` is missing" in capsys.readouterr().err
    assert apache_kafka.VERSION


def test_an_estimate_is_told_and_nothing_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert campaign.main(["queue", "flame", "--form", "short", "--estimate", "--out", str(tmp_path / "out")]) == 0

    told = capsys.readouterr().err
    assert [line.split()[0] for line in told.splitlines()] == ["flame", "queue", "together"]
    assert not (tmp_path / "out").exists()
