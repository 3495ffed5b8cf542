"""Kafka's own tools look at the metadata quorum: kafka-metadata-quorum, and kafka-dump-log at its log and snapshots."""

import re
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.kafka_tools import run
from tests.interop.node_process import NodeProcess

pytestmark = pytest.mark.interop


def create_topics(bootstrap: str, count: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for n in range(count):
        for future in admin.create_topics([NewTopic(f"topic-{n}", 1, 1)]).values():
            future.result(10)


def dump(path: Path) -> str:
    printed = run("kafka-dump-log", "--cluster-metadata-decoder", "--files", str(path))
    assert "isvalid: false" not in printed
    return printed


def test_the_quorum_is_described_and_its_files_can_be_read(tmp_path: Path) -> None:
    with NodeProcess(tmp_path, "--set", "quorum.snapshot_bytes=2000") as node:
        create_topics(node.bootstrap, 30)
        status = run("kafka-metadata-quorum", "--bootstrap-server", node.bootstrap, "describe", "--status")
        replicas = run("kafka-metadata-quorum", "--bootstrap-server", node.bootstrap, "describe", "--replication")
        assert node.stop() == 0

    assert re.search(r"LeaderId:\s+1\b", status)
    assert re.search(r"LeaderEpoch:\s+1\b", status)
    assert re.search(r"MaxFollowerLag:\s+0\b", status)
    assert re.search(r"^1\s+\S+\s+\d+\s+0\s+\d+\s+\d+\s+Leader", replicas, re.MULTILINE)

    log = "".join(dump(path) for path in sorted(node.data_dir.rglob("__cluster_metadata-0/*.log")))
    assert "topic-29" in log
    snapshots = sorted(node.data_dir.rglob("quorum/*.checkpoint"))
    assert len(snapshots) == 2
    printed = dump(snapshots[-1])
    assert "SnapshotHeader" in printed
    assert "SnapshotFooter" in printed
    assert "KRaftVoters" in printed
    assert "TOPIC_RECORD" in printed
