"""Kafka's own tool moves partitions of a cluster (`make interop`)."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.cluster_rig import ClusterRig, with_cluster
from tests.interop.kafka_tools import run

pytestmark = pytest.mark.interop


def test_kafka_reassign_partitions_plans_moves_verifies_and_lists(tmp_path: Path) -> None:
    async def scenario(cluster: ClusterRig) -> None:
        await cluster.create("t", partitions=4, replication_factor=2)
        for index in range(4):
            await cluster.leader("t", index).produce("t", b"x" * 1000, partition=index)
        await asyncio.to_thread(move, cluster)
        assert {cluster.partition("t", index).replicas for index in range(4)} == {(3, 1)}

    def move(cluster: ClusterRig) -> None:
        server = ("--bootstrap-server", f"127.0.0.1:{cluster.any_node.node.port}")
        topics, plan = tmp_path / "topics.json", tmp_path / "plan.json"
        topics.write_text(json.dumps({"version": 1, "topics": [{"topic": "t"}]}))
        proposed = run(
            "kafka-reassign-partitions", *server, "--topics-to-move-json-file", str(topics), "--broker-list", "1,3",
            "--generate",
        )  # fmt: skip
        assert "Proposed partition reassignment configuration" in proposed
        partitions = [{"topic": "t", "partition": index, "replicas": [3, 1]} for index in range(4)]
        plan.write_text(json.dumps({"version": 1, "partitions": partitions}))
        file = ("--reassignment-json-file", str(plan))
        started = run("kafka-reassign-partitions", *server, *file, "--execute")
        assert "Successfully started partition reassignments for t-0,t-1,t-2,t-3" in started
        verified = run("kafka-reassign-partitions", *server, *file, "--verify")
        while "still in progress" in verified:
            verified = run("kafka-reassign-partitions", *server, *file, "--verify")
        assert verified.count("is completed") == 4
        assert "No partition reassignments found" in run("kafka-reassign-partitions", *server, "--list")

    with_cluster(scenario)
