"""`ottla cluster`: on one node, and on a cluster of three that a fourth joins and leaves."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import Ottla
from tests.cli.local_cluster import LocalCluster
from tests.interop.node_process import NodeProcess
from tests.ports import free_ports


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three nodes that all vote, in which nothing moves and nobody becomes a voter unless it is asked for."""
    quiet = ("--set", "cluster.voters_max=1", "--set", "cluster.auto_rebalance_enable=false")
    with LocalCluster(tmp_path_factory.mktemp("cluster"), 3, *quiet) as running:
        yield running
        assert running.stop() == 0


def holders(status: dict[str, list[dict[str, int]]]) -> dict[int, int]:
    return {node["id"]: node["replicas"] for node in status["nodes"]}


def test_the_cluster_says_who_is_in_it(ottla: Ottla, topic: str) -> None:
    info = ottla("cluster", "info", "--json").json

    [broker] = info["brokers"]
    assert f"{broker['host']}:{broker['port']}" == ottla.bootstrap
    assert info["controller"] == broker["id"]
    assert info["topics"] >= 1
    assert len(info["cluster_id"]) == 22
    assert ottla("cluster", "info").lines[0].split() == ["cluster", info["cluster_id"]]


def test_a_node_alone_is_its_own_quorum(ottla: Ottla, topic: str) -> None:
    status = ottla("cluster", "status", "--json").json

    [node] = status["nodes"]
    assert (node["role"], node["state"], node["metadata_lag"]) == ("controller", "in service", 0)
    assert node["leads"] == node["replicas"] == node["in_sync"] == status["partitions"]["partitions"]
    assert status["quorum"]["voters"] == [node["id"]]
    assert ottla("cluster", "plan").lines == []
    assert "the only one" in ottla("cluster", "decommission", str(node["id"]), code=1).stderr


def test_the_status_of_three_nodes(cluster: LocalCluster) -> None:
    cluster.ottla("topic", "create", "spread", "--partitions", "6", "--replication-factor", "3")
    cluster.ottla("produce", "spread", stdin="x" * 1_000 + "\n")
    status = cluster.ottla("cluster", "status", "--json").json

    roles = sorted(node["role"] for node in status["nodes"])
    assert roles == ["controller", "voter", "voter"]
    assert sorted(status["quorum"]["voters"]) == [1, 2, 3]
    assert status["controller"] == status["quorum"]["leader"]
    assert status["partitions"]["under_replicated"] == status["partitions"]["without_leader"] == 0
    assert all(node["held_bytes"] > 1_000 and node["usable_bytes"] > 0 for node in status["nodes"])
    lines = cluster.ottla("cluster", "status").lines
    assert lines[0].split() == ["cluster", status["cluster_id"]]
    assert [line.split()[0] for line in lines[-3:]] == ["1", "2", "3"]
    cluster.ottla("topic", "delete", "spread")


def test_load_is_measured_on_request(cluster: LocalCluster) -> None:
    nodes = cluster.ottla("cluster", "status", "--load", "--json").json["nodes"]
    assert [node["written_bytes_per_s"] >= 0 for node in nodes] == [True] * 3
    assert "WRITES/S" in cluster.ottla("cluster", "status", "--load").stdout


def test_voters_come_and_go(cluster: LocalCluster) -> None:
    status = cluster.ottla("cluster", "status", "--json").json
    for node in status["quorum"]["voters"]:  # the leader too, which hands over by that
        cluster.ottla("cluster", "remove-voter", str(node))
        left = cluster.ottla("cluster", "status", "--json").json["quorum"]
        assert node not in left["voters"]
        assert left["leader"] != node
        assert "is no voter" in cluster.ottla("cluster", "remove-voter", str(node), code=1).stderr
        added = cluster.ottla("cluster", "add-voter", str(node), "--json").json
        assert sorted(added["voters"]) == [1, 2, 3]
        assert "already" in cluster.ottla("cluster", "add-voter", str(node), code=1).stderr
    assert "does not follow" in cluster.ottla("cluster", "add-voter", "99", code=1).stderr


def test_a_node_that_joins_is_filled_and_can_leave_again(cluster: LocalCluster, tmp_path: Path) -> None:
    cluster.ottla("topic", "create", "moving", "--partitions", "8", "--replication-factor", "3")
    cluster.ottla("produce", "moving", stdin="".join(f"{number}\n" for number in range(100)))
    flags = ("--node-id", "4", "--cluster-port", str(free_ports(1)), "--seeds", f"127.0.0.1:{cluster.cluster_port}")
    with NodeProcess(tmp_path, *flags) as fourth:
        moves = cluster.ottla("cluster", "plan", "--json").json["moves"]
        assert moves
        assert all(4 in move["replicas"] and 4 not in move["before"] and move["reason"] for move in moves)
        assert holders(cluster.ottla("cluster", "status", "--json").json)[4] == 0

        assert cluster.ottla("cluster", "rebalance", "--json").json["moved"] == len(moves)
        assert cluster.ottla("cluster", "plan", "--json").json == {"moves": [], "blocked": []}
        status = cluster.ottla("cluster", "status", "--json").json
        assert holders(status)[4] == len(moves)
        assert status["partitions"]["under_replicated"] == 0

        emptied = cluster.ottla("cluster", "decommission", "4", "--json")
        assert emptied.json == {"node": 4, "state": "empty"}
        assert "Stop it" in emptied.stderr
        status = cluster.ottla("cluster", "status", "--json").json
        assert holders(status)[4] == 0
        assert {node["id"]: node["state"] for node in status["nodes"]}[4] == "draining"
        assert fourth.stop() == 0

        assert cluster.ottla("cluster", "decommission", "4", "--json").json == {"node": 4, "state": "removed"}
    assert sorted(holders(cluster.ottla("cluster", "status", "--json").json)) == [1, 2, 3]
    read = cluster.ottla("consume", "moving")
    assert sorted(map(int, read.lines)) == list(range(100))
    cluster.ottla("topic", "delete", "moving")


def test_what_has_nowhere_to_go_keeps_a_node_in_the_cluster(cluster: LocalCluster) -> None:
    cluster.ottla("topic", "create", "stuck", "--partitions", "1", "--replication-factor", "3")
    refused = cluster.ottla("cluster", "decommission", "2", code=1)
    assert "stuck-0 can't leave broker 2" in refused.stderr
    assert "--cancel" in refused.stderr
    cluster.ottla("cluster", "decommission", "2", "--cancel")
    assert {node["state"] for node in cluster.ottla("cluster", "status", "--json").json["nodes"]} == {"in service"}
    cluster.ottla("topic", "delete", "stuck")


def test_leaders_are_elected(cluster: LocalCluster) -> None:
    cluster.ottla("topic", "create", "led", "--partitions", "3", "--replication-factor", "3")
    assert cluster.ottla("cluster", "elect", "led", "--json").json == {"elected": 0, "not_needed": 3, "refused": []}
    refused = cluster.ottla("cluster", "elect", "led:7", code=1)
    assert "led-7" in refused.stderr
    assert "name the partitions" in cluster.ottla("cluster", "elect", "--unclean", code=2).stderr
    assert cluster.ottla("cluster", "elect", "led:0", "--unclean", "--json").json["not_needed"] == 1
    cluster.ottla("topic", "delete", "led")


@pytest.mark.parametrize("command", ["decommission", "remove-voter", "add-voter"])
def test_a_node_that_is_not_there_is_refused(cluster: LocalCluster, command: str) -> None:
    assert "99" in cluster.ottla("cluster", command, "99", code=1).stderr
