"""`ottla up`: a cluster of real processes."""

import os
import signal
import socket
from pathlib import Path

import pytest

from tests.cli.command import Ottla
from tests.cli.local_cluster import LocalCluster
from tests.interop.waiting import eventually
from tests.ports import free_ports


def test_a_line_per_node_and_a_clean_stop(tmp_path: Path) -> None:
    with LocalCluster(tmp_path) as cluster:
        assert sorted(cluster.pids()) == [1, 2, 3]
        info = cluster.ottla("cluster", "info", "--json").json
        assert [broker["id"] for broker in sorted(info["brokers"], key=lambda broker: int(broker["id"]))] == [1, 2, 3]
        assert cluster.stop(signal.SIGINT) == 0
        assert len(cluster.lines) == 3
        for node in (1, 2, 3):
            assert f"node {node} has stopped" in cluster.log(node)
            assert "Traceback" not in cluster.log(node)


def test_a_node_that_is_killed_comes_back_and_nothing_is_lost(tmp_path: Path) -> None:
    with LocalCluster(tmp_path) as cluster:
        cluster.ottla("topic", "create", "kept", "--partitions", "3")
        cluster.ottla("produce", "kept", stdin="one\ntwo\nthree\n")
        [victim] = cluster.pids()[2]
        os.kill(victim, signal.SIGKILL)
        cluster.ottla("produce", "kept", stdin="four\nfive\n")
        cluster.until(lambda: len(cluster.pids()[2]) == 2)
        assert any("node 2 was killed by signal 9" in line for line in cluster.lines)
        read = cluster.ottla("consume", "kept")
        assert sorted(read.lines) == ["five", "four", "one", "three", "two"]


def test_when_it_is_killed_its_nodes_stop_cleanly(tmp_path: Path) -> None:
    with LocalCluster(tmp_path) as cluster:
        cluster.ottla("produce", "kept", stdin="one\n")
        assert cluster.stop(signal.SIGKILL) == -signal.SIGKILL
        eventually(
            lambda: all(f"node {node} has stopped" in cluster.log(node) for node in (1, 2, 3)),
            within_s=60,
            what="all nodes have stopped",
        )


def test_it_starts_again_from_its_directory(tmp_path: Path) -> None:
    with LocalCluster(tmp_path) as cluster:
        cluster.ottla("produce", "kept", stdin="one\n")
        cluster_id = cluster.ottla("cluster", "info", "--json").json["cluster_id"]
        assert cluster.stop() == 0
        cluster.lines.clear()
        cluster.launch()
        cluster.until(lambda: len(cluster.pids()) == 3)
        assert cluster.ottla("cluster", "info", "--json").json["cluster_id"] == cluster_id
        read = cluster.ottla("consume", "kept")
        assert read.lines == ["one"]


def test_a_port_that_is_taken_is_exit_code_3_and_leaves_nothing_running(tmp_path: Path) -> None:
    port, cluster_port = free_ports(3), free_ports(3)
    with socket.create_server(("127.0.0.1", port + 1)):
        refused = Ottla()(
            "up", "--data-dir", str(tmp_path / "data"), "--port", str(port), "--cluster-port", str(cluster_port), code=3
        )
    assert "node 2 could not be started" in refused.stderr
    assert str(port + 1) in refused.stderr
    with socket.socket() as free_again:
        free_again.bind(("127.0.0.1", port))


def test_a_directory_with_more_nodes_is_refused(tmp_path: Path) -> None:
    (tmp_path / "node-3").mkdir()
    (tmp_path / "node-3" / "meta.properties").touch()
    refused = Ottla()("up", "--nodes", "2", "--data-dir", str(tmp_path), code=2)
    assert "--nodes 3" in refused.stderr


def test_the_directory_of_a_single_node_is_refused(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").touch()
    assert "single node" in Ottla()("up", "--data-dir", str(tmp_path), code=2).stderr


@pytest.mark.parametrize(
    "flags",
    [
        ("--nodes", "0"),
        ("--port", "65535"),
        ("--port", "7947"),
        ("--set", "no_such_setting=1"),
        ("--set", "num_partitions=0"),
    ],
)
def test_what_can_not_work_is_refused_before_anything_is_started(tmp_path: Path, flags: tuple[str, ...]) -> None:
    refused = Ottla()("up", "--data-dir", str(tmp_path / "data"), *flags, code=2)
    assert refused.stderr.count("\n") == 1
    assert not (tmp_path / "data").exists()
