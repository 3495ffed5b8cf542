"""`ottla bench` against a running broker."""

import os
import signal
from typing import Any

import pytest

from ottla.cli.main import main
from ottla.client.admin import Admin
from tests.cli.command import Ottla

RESULT_FIELDS = {
    "mode", "records", "seconds", "records_per_second", "mb_per_second", "p50_ms", "p99_ms", "p99_9_ms",
    "broker_cpu_us_per_record", "broker_rss_mb",
}  # fmt: skip
SMALL = ("--records", "2000", "--size", "64", "--rate", "500", "--seconds", "0.5", "--partitions", "2")


def test_all_modes_are_measured_and_nothing_is_left_behind(ottla: Ottla) -> None:
    before = ottla("topic", "list").stdout

    report = ottla("bench", *SMALL, "--broker-pid", str(os.getpid()), "--json").json

    assert [result["mode"] for result in report["results"]] == ["produce", "consume", "latency"]
    assert [result["records"] for result in report["results"]] == [2000, 2000, 250]
    assert all(result.keys() == RESULT_FIELDS for result in report["results"])
    produce, consume, latency = report["results"]
    assert produce["mb_per_second"] > 0
    assert consume["p50_ms"] is None
    assert 0 < latency["p50_ms"] <= latency["p99_ms"] <= latency["p99_9_ms"]
    assert all(result["broker_rss_mb"] > 1 for result in report["results"])
    assert ottla("topic", "list").stdout == before


def test_people_get_a_table_and_are_told_what_is_missing(ottla: Ottla) -> None:
    finished = ottla("bench", "produce", *SMALL)

    assert finished.lines[0].split()[:3] == ["MODE", "RECORDS/S", "MB/S"]
    assert finished.lines[1].split()[0] == "produce"
    assert "--broker-pid" in finished.stderr


def test_a_process_that_is_not_there_can_not_be_watched(ottla: Ottla) -> None:
    assert "no process 999999999" in ottla("bench", "--broker-pid", "999999999", code=1).stderr


def test_ctrl_c_ends_the_clients_and_deletes_the_topic(ottla: Ottla) -> None:
    with ottla.running("bench", "latency", "--seconds", "600", "--json", start_new_session=True) as process:
        topic = f"ottla-bench-{process.pid}-latency"
        while topic not in ottla("topic", "list").stdout:
            assert process.poll() is None

        os.killpg(process.pid, signal.SIGINT)
        stdout, stderr = process.communicate(timeout=30)

    assert process.returncode == 130
    assert stdout == b""
    assert stderr.strip() == b""
    assert topic not in ottla("topic", "list").stdout


def test_ctrl_c_while_the_topic_is_made_deletes_it_too(ottla: Ottla, monkeypatch: pytest.MonkeyPatch) -> None:
    create = Admin.create_topic
    made: list[str] = []

    def interrupted(cluster: Admin, name: str, **given: Any) -> None:
        create(cluster, name, **given)
        made.append(name)
        raise KeyboardInterrupt

    monkeypatch.setattr(Admin, "create_topic", interrupted)

    assert main(["bench", "latency", "--bootstrap", str(ottla.bootstrap)]) == 130
    (topic,) = made
    assert topic not in ottla("topic", "list").stdout
