"""The metrics of a node: their format, and whether they are true."""

import re
import time
from pathlib import Path

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


def test_a_thousand_partitions_do_not_stall_the_node(node: HttpNode) -> None:
    """Loose bounds: the figures of issue and documentation are measured on a machine that has nothing else to do."""
    node.create("x-many", partitions=1_000)
    node.produce("x-many", *({"value": "v", "partition": index} for index in range(1_000)))
    started = time.monotonic()
    text = node.client.get("/metrics").text
    took_s = time.monotonic() - started
    assert text.count('topic="x-many"') == 5 * 1_000
    assert took_s < 5
    assert node.client.delete("/topics/x-many").status_code == 204
