"""Nodes as processes become one cluster, whatever happens while they do."""

import itertools
from functools import partial
from pathlib import Path

import pytest

from tests.cluster.processes import ClusterNode, ClusterProcesses
from tests.interop.confluent import new_producer, send
from tests.interop.waiting import eventually
from tests.ports import free_port


def assert_one_cluster(cluster: ClusterProcesses) -> None:
    ids = {node.cluster_id for node in cluster.nodes.values()}
    assert len(ids) == 1, cluster.logs()
    assert None not in ids


def test_three_nodes_started_together_are_one_cluster_and_serve(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path) as cluster:
        assert_one_cluster(cluster)
        voters = {node.meta("founding.voters") for node in cluster.nodes.values()}
        assert len(voters) == 1
        sent = send(new_producer(cluster.bootstrap), "t", [b"one", b"two"])
        assert len(sent) == 2
        for node in cluster.nodes.values():
            assert node.stop() == 0
            assert "Traceback" not in node.log()


@pytest.mark.parametrize("order", list(itertools.permutations((1, 2, 3)))[::2], ids=str)
def test_the_order_of_starts_does_not_matter(tmp_path: Path, order: tuple[int, int, int]) -> None:
    cluster = ClusterProcesses(tmp_path)
    try:
        first, second, last = (cluster.node(node_id) for node_id in order)
        first.launch()
        second.launch()
        for node in (first, second):
            node.until(partial(node.meta, "directory.id"), "has a directory")
        second.kill()
        first.until(
            lambda: "does not answer" in first.log() or "do not answer" in first.log(), "says what it waits for"
        )
        assert first.cluster_id is None

        cluster.start([second.node_id, last.node_id])

        assert_one_cluster(cluster)
    finally:
        cluster.close()


def test_a_founder_that_loses_its_disk_before_there_is_a_cluster_is_no_problem(tmp_path: Path) -> None:
    cluster = ClusterProcesses(tmp_path)
    try:
        one, two = cluster.node(1), cluster.node(2)
        one.launch()
        two.launch()
        two.until(lambda: two.meta("directory.id"), "has a directory")
        two.kill()
        two.wipe()

        cluster.start([2, 3])

        assert_one_cluster(cluster)
        assert str(two.meta("directory.id")) in str(one.meta("founding.voters"))
    finally:
        cluster.close()


def test_a_node_that_waits_for_others_stops_when_it_is_told_to(tmp_path: Path) -> None:
    cluster = ClusterProcesses(tmp_path)
    node = cluster.node(1)
    try:
        node.launch()
        node.until(lambda: node.meta("directory.id"), "has a directory")
        assert node.stop(within_s=5) == 0
        assert "Traceback" not in node.log()
    finally:
        cluster.close()


def test_a_cluster_survives_the_restart_of_all_of_its_nodes(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path) as cluster:
        cluster_id = cluster.node(1).cluster_id
        for node in cluster.nodes.values():
            node.kill()

        cluster.start()

        assert_one_cluster(cluster)
        assert cluster.node(1).cluster_id == cluster_id


def test_two_of_three_go_on_when_all_were_killed_and_one_does_not_come_back(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path) as cluster:
        for node in cluster.nodes.values():
            node.kill()

        cluster.node(1).launch()
        cluster.node(3).launch()

        cluster.until_brokers(1, 3)


def test_a_founder_that_loses_its_disk_later_comes_back_with_an_empty_one(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path, 3, "--set", "quorum.voter_replace_ms=1s") as cluster:
        controller = cluster.controller()
        victim = next(node for node in cluster.running if node is not controller)
        victim.kill()
        victim.wipe()
        cluster.until_brokers(*(node.node_id for node in cluster.running))

        victim.start()

        cluster.until_brokers(1, 2, 3)
        assert_one_cluster(cluster)
        eventually(lambda: cluster.voters() == {1, 2, 3}, within_s=60, what=f"three voters\n{cluster.logs()}")


def test_a_fourth_node_joins_by_any_seed(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path) as cluster:
        fourth = cluster.add(4, seeds=[cluster.seeds[1]])

        fourth.start()

        cluster.until_brokers(1, 2, 3, 4)
        assert_one_cluster(cluster)
        assert str(fourth.meta("directory.id")) not in str(fourth.meta("founding.voters"))


def test_a_node_alone_is_joined_by_others(tmp_path: Path) -> None:
    cluster = ClusterProcesses(tmp_path, founders=0)
    try:
        first = cluster.add(1, seeds=[])
        first.start()
        for node_id in (2, 3):
            cluster.add(node_id, seeds=[first.cluster_address]).start()

        cluster.until_brokers(1, 2, 3)
        assert_one_cluster(cluster)
    finally:
        cluster.close()


def test_nodes_find_each_other_without_the_seed_by_which_they_joined(tmp_path: Path) -> None:
    """2 and 3 have only 1 for a seed. When all come back but 1, they are a majority, if they find each other."""
    cluster = ClusterProcesses(tmp_path, founders=0)
    try:
        first = cluster.add(1, seeds=[])
        first.start()
        others = [cluster.add(node_id, seeds=[first.cluster_address]).start() for node_id in (2, 3)]
        cluster.until_brokers(1, 2, 3)
        for node in others:
            node.until(partial(_knows_all, node), "has written down where the others are")
        eventually(lambda: cluster.voters() == {1, 2, 3}, within_s=60, what=f"three voters\n{cluster.logs()}")
        for node in cluster.nodes.values():
            node.kill()

        for node in others:
            node.launch()

        cluster.until_brokers(2, 3)
    finally:
        cluster.close()


def _knows_all(node: ClusterNode) -> bool:
    path = node.data_dir / "known-nodes"
    return path.exists() and len(path.read_text().splitlines()) >= 2


def test_another_clusters_directory_is_refused(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path) as cluster:
        stranger = ClusterNode(tmp_path / "stranger", 4, [], free_port())
        stranger.start()
        stranger.stop()
        refused = ClusterNode(tmp_path / "stranger", 4, cluster.seeds, free_port())

        refused.launch()

        assert refused.wait() == 2
        told = refused.log().splitlines()[-1]
        assert str(stranger.cluster_id) in told
        assert str(cluster.node(1).cluster_id) in told
        assert "Traceback" not in refused.log()
        cluster.until_brokers(1, 2, 3)


def test_another_nodes_directory_is_refused(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path) as cluster:
        cluster.node(3).stop()
        wrong = ClusterNode(tmp_path / "node-3", 7, cluster.seeds, free_port())

        wrong.launch()

        assert wrong.wait() == 2
        assert "belongs to node 3" in wrong.log()


def test_a_killed_process_is_suspected_within_a_second(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path) as cluster:
        victim = cluster.node(3)
        watcher = cluster.node(1)
        victim.kill()

        eventually(
            lambda: f"node 3 at {victim.cluster_address}: suspected" in watcher.log(), within_s=5, what="suspicion"
        )
        cluster.until_brokers(1, 2)
