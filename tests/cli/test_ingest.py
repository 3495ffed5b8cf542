"""`ottla ingest` against a node, by both ways."""

from __future__ import annotations

import json
import signal
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from ottla.ingest.truth import Truth
from ottla.pipelines.checking import read_topic
from tests.cli.command import Ottla
from tests.cli.local_cluster import LocalCluster
from tests.ports import free_ports

START_MS = "1750000000000"


def sent(bootstrap: str, topic: str) -> list[bytes | None]:
    return [record.value for record in read_topic(bootstrap, topic)]


def test_what_it_says_it_sent_is_in_the_topic_and_in_the_truth(ottla: Ottla, bootstrap: str, tmp_path: Path) -> None:
    truth = tmp_path / "truth.jsonl"

    done = ottla(
        "ingest", "--topic", "ingested", "--events", "2000", "--start-ms", START_MS, "--malformed", "0.1",
        "--duplicate", "0.1", "--truth", str(truth), "--heartbeat", "1m", "--json",
    )  # fmt: skip

    told, known, values = done.json, Truth.load(truth), sent(bootstrap, "ingested")
    assert told["sent"] == len(values) == 2_001
    assert (told["good"], told["duplicate"], told["heartbeat"]) == (len(known.good), known.duplicates, 1)
    assert told["dead"] == known.dead.total()
    there = [value for value in values if value is not None]
    assert len(there) - len(set(there)) == known.duplicates
    ids = Counter(json.loads(value or b"").get("event_id") for value in values if value and value.endswith(b"}"))
    assert {event.event_id for event in known.good} <= set(ids)


def test_the_same_seed_sends_the_same(ottla: Ottla, bootstrap: str) -> None:
    for topic in ("first", "second"):
        ottla("ingest", "--topic", topic, "--events", "300", "--start-ms", START_MS, "--seed", "9")

    assert sorted(map(str, sent(bootstrap, "first"))) == sorted(map(str, sent(bootstrap, "second")))


def test_it_takes_its_time_and_ends_at_a_signal(ottla: Ottla, bootstrap: str, tmp_path: Path) -> None:
    truth = tmp_path / "truth.jsonl"
    command = ["ingest", "--topic", "slow", "--rate", "20", "--truth", str(truth), "--json"]
    with ottla.running(*command) as process:
        while len(_some(bootstrap, "slow")) < 5:
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=30)

    assert process.returncode == 0
    assert json.loads(out)["sent"] == len(sent(bootstrap, "slow")) == Truth.load(truth).sent < 2_000


def _some(bootstrap: str, topic: str) -> list[bytes | None]:
    try:
        return sent(bootstrap, topic)
    except (KeyError, KafkaException):  # not made yet
        return []


def test_shares_that_make_no_sense_are_refused(ottla: Ottla) -> None:
    failed = ottla("ingest", "--late", "0.9", "--malformed", "0.9", "--events", "1", code=2)

    assert "shares" in failed.stderr


def test_nobody_at_the_address_is_said(ottla: Ottla) -> None:
    failed = ottla("ingest", "--http", "http://127.0.0.1:9", "--events", "1", code=6)

    assert "127.0.0.1:9" in failed.stderr


@pytest.mark.timeout(120)
def test_events_come_over_http_as_well(tmp_path: Path) -> None:
    truth = tmp_path / "truth.jsonl"
    port = free_ports(1)
    with LocalCluster(tmp_path, 1, "--set", f"http.port={port}") as cluster:
        done = cluster.ottla(
            "ingest", "--http", f"http://127.0.0.1:{port}", "--events", "500", "--rate", "1000", "--truth", str(truth),
            "--json",
        )  # fmt: skip

        assert done.json["sent"] == len(sent(cluster.bootstrap, "raw")) == Truth.load(truth).sent == 500
