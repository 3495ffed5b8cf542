"""The metrics of a node: their format, and whether they are true."""

import re
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from ottla.http.node_metrics import NodeMetrics
from ottla.runtime.node import Node
from tests.http_api.rig import HttpNode

SAMPLE = re.compile(r'^([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\]|\\.)*",?)+)\})? (-?[0-9.e+-]+)$')
PAGE = Path(__file__).parents[2] / "docs" / "METRICS.md"


def samples(text: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            parsed = SAMPLE.match(line)
            assert parsed is not None, line
            assert line.rsplit(" ", 1)[0] not in found, f"{line} is told twice"
            found[line.rsplit(" ", 1)[0]] = float(parsed[3])
    return found


def families(text: str) -> set[str]:
    return {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE ")}


def test_what_is_counted_is_what_was_done(node: HttpNode) -> None:
    node.create("x-true", partitions=2)
    node.produce("x-true", *({"value": "v", "partition": 1} for _ in range(7)))
    node.client.post("/consumer-groups/x/topics/x-true/partitions/1/commit", json={"offset": 3})

    answer = node.client.get("/metrics")
    found = samples(answer.text)

    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    where = '{topic="x-true",partition="1"}'
    assert found[f"ottla_partition_end_offset{where}"] == found[f"ottla_partition_high_watermark{where}"] == 7
    assert found[f"ottla_partition_written_bytes_total{where}"] == found[f"ottla_partition_bytes{where}"] > 0
    lag = '{group="x",topic="x-true",partition="1"}'
    assert found[f"ottla_group_lag_records{lag}"] == 4
    assert 0 <= found[f"ottla_group_lag_seconds{lag}"] < 60
    assert found["ottla_partitions_led"] == found["ottla_partitions_held"] >= 2
    assert found["ottla_partitions_offline"] == found["ottla_partitions_under_replicated"] == 0
    assert found["ottla_raft_is_leader"] == found["ottla_raft_leader_id"] == found["ottla_raft_voters"] == 1
    assert found["ottla_commit_seconds_count"] > 0
    assert found["ottla_process_resident_bytes"] > 10_000_000


def test_latencies_of_kafka_requests_are_histograms(node: HttpNode) -> None:
    from confluent_kafka import Producer

    node.create("x-latency")
    producer = Producer({"bootstrap.servers": node.bootstrap})
    producer.produce("x-latency", value=b"x")
    producer.flush()
    found = samples(node.client.get("/metrics").text)
    assert found['ottla_requests_total{api="Produce"}'] == found["ottla_produce_seconds_count"] >= 1
    buckets = [value for name, value in found.items() if name.startswith("ottla_produce_seconds_bucket")]
    assert buckets == sorted(buckets)
    assert buckets[-1] == found["ottla_produce_seconds_count"]
    assert 0 < found['ottla_produce_seconds_quantile{quantile="0.99"}'] < 30


def test_every_family_is_documented_and_every_documented_one_is_there(node: HttpNode) -> None:
    told = families(node.client.get("/metrics").text)
    documented = set(re.findall(r"^\| `(ottla_[a-z_]+)`", PAGE.read_text(), re.MULTILINE))
    only_in_clusters = {name for name in documented if name.startswith("ottla_gossip_")}
    assert told == documented - only_in_clusters


def test_a_record_that_is_read_at_the_end_counts_from_producer_to_consumer(node: HttpNode) -> None:
    node.create("x-delivered")
    before = samples(node.client.get("/metrics").text)["ottla_end_to_end_seconds_count"]
    node.produce("x-delivered", {"value": "v"})
    node.consume("x-delivered", wait_ms=1000)
    found = samples(node.client.get("/metrics").text)
    assert found["ottla_end_to_end_seconds_count"] > before
    assert found['ottla_partition_read_bytes_total{topic="x-delivered",partition="0"}'] > 0


def test_a_partition_that_is_refused_inside_of_an_answer_is_counted_by_its_error(node: HttpNode) -> None:
    from confluent_kafka import Consumer, TopicPartition

    node.create("x-refused")
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "x-refused", "auto.offset.reset": "error"})
    consumer.assign([TopicPartition("x-refused", 0, 99)])
    while (message := consumer.poll(10)) is None:
        pass
    assert message.error() is not None
    consumer.close()
    found = samples(node.client.get("/metrics").text)
    assert found['ottla_partition_errors_total{api="Fetch",error="OFFSET_OUT_OF_RANGE"}'] >= 1


def test_what_waits_behind_the_journal_is_told(node: HttpNode) -> None:
    """The first write of a segment makes its file, those after it wait until the next checkpoint, once a minute."""
    node.create("x-held")
    node.produce("x-held", {"value": "v"})
    held = []
    for _ in range(3):
        held.append(samples(node.client.get("/metrics").text)["ottla_held_bytes"])
        node.produce("x-held", {"value": "w" * 1_000})
    assert any(after >= before + 1_000 for before, after in pairwise(held))


def test_the_syncs_of_commits_are_measured_by_themselves(node: HttpNode) -> None:
    node.create("x-synced")
    node.produce("x-synced", {"value": "v"})
    found = samples(node.client.get("/metrics").text)
    assert 0 < found["ottla_fsync_seconds_sum"] <= found["ottla_commit_seconds_sum"]
    assert found["ottla_raft_elections_total"] >= 1


def test_a_transaction_that_is_open_is_told_with_its_age_and_what_it_holds_back(node: HttpNode) -> None:
    from confluent_kafka import Producer

    node.create("x-open")
    producer = Producer({"bootstrap.servers": node.bootstrap, "transactional.id": "x-open"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("x-open", value=b"x")
    producer.flush()
    found = samples(node.client.get("/metrics").text)
    where = '{topic="x-open",partition="0"}'
    assert found['ottla_transactions{state="Ongoing"}'] == 1
    assert found["ottla_transaction_oldest_seconds"] > 0
    assert found[f"ottla_partition_high_watermark{where}"] == 1
    assert found[f"ottla_partition_stable_offset{where}"] == 0
    producer.commit_transaction()
    found = samples(node.client.get("/metrics").text)
    assert found['ottla_transactions{state="Ongoing"}'] == found["ottla_transaction_oldest_seconds"] == 0
    assert found[f"ottla_partition_stable_offset{where}"] == 2


TURN_CPU_MS_MAX = 5
SCRAPE_CPU_MS_MAX = 50
MANY = 1_500
"""Compiled, a turn is enough for a thousand partitions."""


def test_many_partitions_are_told_in_short_turns_of_the_loop(node: HttpNode) -> None:
    """In CPU time of the node's thread, of the best of some: a machine that is busy makes everything else longer."""
    node.create("x-many", partitions=MANY)
    node.produce("x-many", *({"value": "v", "partition": index} for index in range(MANY)))
    assert node.client.get("/metrics").text.count('topic="x-many"') == 7 * MANY
    turns_ms = min((node.in_node(_turns_of_a_scrape) for _ in range(5)), key=max)
    assert len(turns_ms) > 1
    assert max(turns_ms) <= TURN_CPU_MS_MAX
    assert sum(turns_ms) <= SCRAPE_CPU_MS_MAX
    assert node.client.delete("/topics/x-many").status_code == 204


def _turns_of_a_scrape(node: Node) -> list[float]:
    """The CPU time of each, one right after the other."""
    scrape: Any = NodeMetrics(node).collect()
    turns_ms: list[float] = []
    while True:
        started_s = time.thread_time()
        try:
            scrape.send(None)
        except StopIteration:
            return turns_ms
        finally:
            turns_ms.append((time.thread_time() - started_s) * 1000)
