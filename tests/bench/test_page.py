"""The page says what is in the results, and nothing else."""

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from bench.items import ITEMS
from bench.page import client_is_limit, page, write_page
from bench.results import Results, merge

from tests.bench.canned import item, request, run

SYSTEMS = {"ottla": 1.0, "kafka-durable": 3.0, "ottla-os": 0.8, "kafka": 1.2}


def everything() -> Results:
    """All items, with figures for every workload and system of their normal plans."""
    measured = {}
    for one in ITEMS:
        plan = one.plan("normal")
        runs = [
            run(workload, system, repetition=repetition, **_figures(workload, 10 + number + repetition))
            for repetition in range(plan.repetitions)
            for workload in plan.workloads
            for number, system in enumerate(plan.systems)
        ]
        measured[one.name] = item(one.name, runs)
    return measured


def _figures(workload: str, number: float) -> dict[str, float]:
    named = {
        "gap_led_s": number,
        "gap_others_s": number / 2,
        "join_s": number,
        "leave_s": number,
        "crash_s": number,
        "crash_beyond_session_s": number,
        "join_cpu_ms": number,
        "start_s": number,
        "idle_rss_mb": number,
        "partitions_rss_mb": number,
        "restart_s": number,
        "restart_killed_s": number,
        "recovery_s": number,
    }
    return {**request(1000 * number, number), **named}


def test_every_item_has_its_section_and_pictures_that_can_be_parsed(tmp_path: Path) -> None:
    for name in ("flame-produce.svg", "flame-batches.svg", "flame-fetch.svg"):
        (tmp_path / name).write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")

    text = page(everything(), tmp_path)

    assert re.findall(r"^## (.+)$", text, re.MULTILINE)[2:-2] == [one.title for one in ITEMS]
    shown = set(re.findall(r"\]\((\S+\.svg)\)", text))
    assert shown == {path.name for path in tmp_path.glob("*.svg")}
    assert {f"growth-{name}.svg" for name in ("partitions", "connections", "batch", "brokers")} <= shown
    for path in tmp_path.glob("*.svg"):
        assert ElementTree.parse(path).getroot().tag.endswith("svg")


def test_the_same_results_give_the_same_files(tmp_path: Path) -> None:
    results = {"requests": everything()["requests"]}

    assert page(results, tmp_path) == page(results, tmp_path)
    before = (tmp_path / "requests.svg").read_bytes()
    page(results, tmp_path)
    assert (tmp_path / "requests.svg").read_bytes() == before


def test_median_and_spread_are_in_the_cell(tmp_path: Path) -> None:
    runs = [
        run("produce_1conn", "ottla", repetition=number, **request(rate, 100 + number))
        for number, rate in enumerate((4_000, 9_000, 5_000))
    ]

    text = page({"requests": item("requests", runs)}, tmp_path)

    assert "5,000/s [4,000-9,000]" in text
    assert "101 µs [100-102]" in text


def test_a_row_in_which_ottla_is_behind_stands_out(tmp_path: Path) -> None:
    runs = [
        run("produce_1conn", "ottla", **request(1_000, 300, p99_ms=2.0)),
        run("produce_1conn", "kafka-durable", **request(2_000, 200, p99_ms=4.0)),
    ]

    text = page({"requests": item("requests", runs)}, tmp_path)

    assert "| one-record requests, 1 connection | **0.50**, 0.50, **1.50** |" in text


def test_what_changes_with_the_machine_between_repetitions_is_not_in_a_ratio(tmp_path: Path) -> None:
    paces = (1.0, 0.2, 0.9, 0.3, 0.8)
    """The medians of the two would be 0.8 and 0.72 of their best, and their ratio right by chance alone."""
    runs = [
        run("produce_50conn", system, repetition=at, **request(rate * pace, 20))
        for at, pace in enumerate(paces)
        for system, rate in (("ottla", 1_100 + at), ("kafka", 1_000))
    ]

    text = page({"headline": item("headline", runs)}, tmp_path)

    assert "| 50 producers, one record at a time | 1.10 [1.10-1.10], above 1 in 5 of 5; 1.00" in text


def test_what_was_not_measured_is_said(tmp_path: Path) -> None:
    text = page({"requests": item("requests", [run("produce_1conn", "ottla", **request(1_000, 300))])}, tmp_path)

    assert "Not measured yet: the headline, throughput, the Java client, a node for each core, end to end," in text
    assert "Apache Kafka was not there: Ottla alone." in text


@pytest.mark.parametrize(
    ("others", "complete", "sentence"),
    [(3.0, True, "The machine was busy with other work"), (0.2, False, "It was interrupted")],
)
def test_figures_that_are_hints_are_called_so(tmp_path: Path, others: float, complete: bool, sentence: str) -> None:
    runs = [run("produce_1conn", "ottla", others=others, **request(1_000, 300))]

    assert sentence in page({"requests": item("requests", runs, complete=complete)}, tmp_path)


def test_what_the_host_took_is_told_with_the_runs_that_were_made_again(tmp_path: Path) -> None:
    peaceful, again, disturbed = (run("produce_1conn", "ottla", **request(1_000, 100)) for _ in range(3))
    again = replace(again, stolen=0.01, tries=2)
    disturbed = replace(disturbed, stolen=0.05, tries=3)

    told = page({"requests": item("requests", [peaceful, again, disturbed])}, tmp_path)

    assert "The host took 2.0 % of the cores; 2 of 3 runs were made again for that, and 1 stayed disturbed." in told
    assert "The host took 0.0 % of the cores.\n" in page({"requests": item("requests", [peaceful])}, tmp_path)


def test_rows_that_were_measured_more_often_are_told(tmp_path: Path) -> None:
    three = [run("produce_1conn", "ottla", repetition=number, **request(1_000, 100)) for number in range(3)]
    nine = [run("produce_50conn", "ottla", repetition=number, **request(1_000, 100)) for number in range(9)]

    told = page({"requests": item("requests", [*three, *nine])}, tmp_path)

    assert "3 repetitions (up to 9 of 1 rows that those did not decide)," in told
    assert "3 repetitions," in page({"requests": item("requests", three)}, tmp_path)


def test_nothing_is_told_of_the_host_where_it_was_not_looked_at(tmp_path: Path) -> None:
    before = item("requests", [run("produce_1conn", "ottla", **request(1_000, 100))])
    del before["stolen"]

    assert "The host" not in page({"requests": before}, tmp_path)


def test_items_of_two_machines_say_which_was_theirs(tmp_path: Path) -> None:
    requests = item("requests", [run("produce_1conn", "ottla", **request(1_000, 300))])
    latency = item("latency", [run("e2e_1k", "ottla", **request(1_000, 300))])
    latency["machine"] = {**latency["machine"], "cpu": "Another CPU"}

    text = page({"requests": requests, "latency": latency}, tmp_path)

    assert "- 2 cores (Another CPU)" in text
    assert "Each item says on which it was measured" in text
    assert "on Some CPU, " in text.split("## One record at a time")[1].split("## ")[0]
    assert "on Another CPU, " in text.split("## End to end")[1].split("## ")[0]
    assert "Each item says on which" not in page({"requests": requests}, tmp_path)


def test_a_run_that_failed_is_in_its_cell(tmp_path: Path) -> None:
    runs = [run("produce_1conn", "ottla", error="rawload: connect: refused")]

    assert "failed: rawload: connect: refused" in page({"requests": item("requests", runs)}, tmp_path)


def test_missed_goals_come_first(tmp_path: Path) -> None:
    runs = [run("produce_200conn", "ottla", **request(60_000, 30))]

    text = page({"requests": item("requests", runs)}, tmp_path)

    assert text.index("CPU ≤ 20 µs | 30 µs | **missed**") < text.index("rate ≥ 50,000/s | 60,000/s | reached")


def test_goals_are_told_as_shares_of_kafkas_figures_too(tmp_path: Path) -> None:
    runs = [
        run("produce_200conn", "ottla", **request(60_000, 30)),
        run("produce_200conn", "kafka-durable", **request(6_000, 300)),
    ]

    text = page({"requests": item("requests", runs)}, tmp_path)

    assert "CPU ≤ 20 µs | 30 µs | **missed** | 0.10 (asked 0.12) | reached |" in text
    assert "as a share of Kafka's figure, whatever the machine: 2 reached, 1 missed." in text


def test_the_page_is_written_beside_its_results(tmp_path: Path) -> None:
    merge(tmp_path / "results.json", "requests", everything()["requests"])

    write_page(tmp_path)

    assert (tmp_path / "README.md").read_text().startswith("# Results of the benchmarks")
    assert (tmp_path / "requests.svg").exists()


def test_the_client_is_the_limit_when_it_has_no_core_left() -> None:
    assert client_is_limit(request(50_000, 10, client_share=0.99), 2)
    assert not client_is_limit(request(50_000, 10, client_share=0.6), 2)


def test_many_threads_of_a_client_are_the_limit_when_the_machine_is_full_and_mostly_theirs() -> None:
    batches = {"seconds": 2.0, "rate": 1.0}

    assert client_is_limit({**batches, "client_cpu_s": 2.9, "broker_cpu_s": 0.9}, 2)
    assert not client_is_limit({**batches, "client_cpu_s": 1.5, "broker_cpu_s": 2.2}, 2)
    assert not client_is_limit({**batches, "client_cpu_s": 1.5, "broker_cpu_s": 0.5}, 2)


def test_a_client_at_a_fixed_rate_is_no_limit() -> None:
    latency = {"seconds": 2.0, "p50_ms": 1.0, "client_cpu_s": 3.0, "broker_cpu_s": 0.9}

    assert not client_is_limit(latency, 2)
