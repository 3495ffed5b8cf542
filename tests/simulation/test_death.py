"""How soon a dead node is out of service: at once where its system says so, within a lease where nobody does."""

from dataclasses import replace

import pytest

from ottla.config import BrokerConfig, ClusterConfig, GossipConfig, QuorumConfig
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.services import Deferred
from ottla.testing.sim_node import SimulatedNode
from ottla.testing.simulation import SimulatedCluster
from tests.simulation.seeds import seeds

TOPIC = "orders"
SETTLES_S = 5.0
AT_ONCE_S = 0.3
"""A few messages and syncs; for the controller also the next tick of the quorum, and its election."""
BY_SILENCE_S = 2.5


@pytest.mark.parametrize("seed", seeds(4))
@pytest.mark.parametrize("role", ["another", "the controller"])
def test_a_node_that_is_killed_is_fenced_at_once(role: str, seed: int) -> None:
    assert _fenced_after_s(seed, role, power=False) < AT_ONCE_S


@pytest.mark.parametrize("seed", seeds(2))
@pytest.mark.parametrize("role", ["another", "the controller"])
def test_a_node_whose_machine_is_dark_is_fenced_when_it_has_been_silent(role: str, seed: int) -> None:
    assert AT_ONCE_S < _fenced_after_s(seed, role, power=True) < BY_SILENCE_S


@pytest.mark.parametrize("seed", seeds(4))
@pytest.mark.parametrize("role", ["another", "the controller"])
def test_who_asks_as_a_node_is_killed_is_told_who_leads_afterwards(role: str, seed: int) -> None:
    """Clients lose their connections at the same moment, and ask at once. The dead node is in the answer: librdkafka
    loses track of its partitions otherwise."""
    with SimulatedCluster(nodes=3, seed=seed, adjust=_as_by_default) as cluster:
        cluster.start_nodes()
        cluster.world.run_for(SETTLES_S)
        victim = next(node for node in cluster.nodes if _leads(node) == (role == "the controller"))
        others = [node for node in cluster.nodes if node is not victim]
        _create_topic(cluster)
        assert victim.config.node_id in _leaders(others[0])
        victim.stays_down = True
        victim.machine.crash(power=False)
        asked = [_ask(node) for node in others]
        assert not any(answer.done for answer in asked)

        cluster.until(lambda: all(answer.done for answer in asked), "answering", within_s=AT_ONCE_S)

        for answer in asked:
            assert answer.value is not None
            assert {broker.node_id for broker in answer.value.brokers} == {1, 2, 3}
            [topic] = answer.value.topics
            leaders = {partition.leader_id for partition in topic.partitions}
            assert leaders == {node.config.node_id for node in others}
        assert cluster.world.failures == []


def _create_topic(cluster: SimulatedCluster) -> None:
    topic = CreatableTopic(name=TOPIC, num_partitions=6, replication_factor=3)
    controller = next(node for node in cluster.nodes if _leads(node))
    assert controller.node is not None
    created = controller.node.local.handle(CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
    cluster.until(lambda: created.done, "creating a topic")
    cluster.until(lambda: all(len(_leaders(node)) == 3 for node in cluster.nodes), "a leader on each node")
    cluster.world.run_for(SETTLES_S)


def _leaders(node: SimulatedNode) -> set[int]:
    assert node.node is not None
    topic = node.node.image.topics.get(TOPIC)
    return set() if topic is None else {partition.leader for partition in topic.partitions.values()}


def _ask(node: SimulatedNode) -> Deferred[MetadataResponse]:
    assert node.node is not None
    request = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])
    answer: Deferred[MetadataResponse] = node.node.local.handle(request)
    return answer


def _fenced_after_s(seed: int, role: str, *, power: bool) -> float:
    """How long it takes until all others know that a node is out of service."""
    with SimulatedCluster(nodes=3, seed=seed, adjust=_as_by_default) as cluster:
        cluster.start_nodes()
        cluster.world.run_for(SETTLES_S)
        victim = next(node for node in cluster.nodes if _leads(node) == (role == "the controller"))
        others = [node for node in cluster.nodes if node is not victim]
        victim.stays_down = True
        died = cluster.world.now
        victim.machine.crash(power=power)
        cluster.until(lambda: all(_is_fenced(node, victim) for node in others), "fencing the dead node")
        assert cluster.world.failures == []
        return cluster.world.now - died


def _as_by_default(config: BrokerConfig) -> BrokerConfig:
    return replace(config, cluster=ClusterConfig(), quorum=QuorumConfig(), gossip=GossipConfig())


def _leads(node: SimulatedNode) -> bool:
    assert node.node is not None
    return node.node.controller.controller_id == node.config.node_id


def _is_fenced(observer: SimulatedNode, victim: SimulatedNode) -> bool:
    assert observer.node is not None
    return observer.node.image.brokers[victim.config.node_id].fenced
