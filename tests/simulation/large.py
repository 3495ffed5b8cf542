"""Clusters of many nodes, without clients: they form, lose nodes for good, and come to rest again.

`python -m tests.simulation.large 3 10 30 100` prints what nodes say to each other in clusters of these sizes, at rest.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ottla.config import BrokerConfig
from ottla.testing.sim_admin import create_topic
from ottla.testing.sim_cluster import SimulatedCluster
from ottla.testing.sim_config import CLUSTER_PORT, PORT
from ottla.testing.sim_node import SimulatedNode

TOPIC = "events"
GONE_AFTER_MS = 3_000
FORMS_WITHIN_S = 120.0
MENDS_WITHIN_S = 300.0
AT_REST_S = 20.0


class LargeCluster:
    def __init__(self, nodes: int, *, seed: int, partitions: int) -> None:
        self.partitions = partitions
        self.simulated = SimulatedCluster(nodes=nodes, seed=seed, adjust=_quick_to_give_up)
        self._dice = self.simulated.world.dice("deaths")

    @property
    def living(self) -> list[SimulatedNode]:
        return [node for node in self.simulated.nodes if not node.stays_down]

    @property
    def controller(self) -> SimulatedNode:
        """The one that all of them name."""
        (number,) = {node.node.controller.controller_id for node in self.living if node.node is not None}
        return self.simulated.nodes[number - 1]

    def form(self) -> None:
        self.simulated.start_nodes(within_s=FORMS_WITHIN_S)
        admin = self.simulated.client("admin")
        admin.start(lambda: create_topic(admin, TOPIC, self.partitions, self.simulated.replicas))
        self.simulated.until(lambda: admin.is_done, "creating the topic")
        self.mend()

    def lose_one(self) -> SimulatedNode:
        """A random machine is gone for good."""
        victim = self._dice.choice(self.living)
        victim.stays_down = True
        victim.machine.crash(power=True)
        return victim

    def mend(self) -> None:
        """Until every node knows every partition to be in sync, with no replica on a node that is gone.

        Looking twice a second is enough.
        """
        world = self.simulated.world
        deadline = world.now + MENDS_WITHIN_S
        while (unmended := next(self.unmended(), None)) is not None:
            if world.now > deadline:
                raise AssertionError(f"after {MENDS_WITHIN_S} s: {unmended}")
            world.run_for(0.5)

    def held(self) -> list[int]:
        """How many replicas are on each node, as the controller knows it."""
        node = self.controller.node
        assert node is not None
        partitions = node.image.topics[TOPIC].partitions.values()
        return [sum(living.config.node_id in partition.replicas for partition in partitions) for living in self.living]

    def unmended(self) -> Iterator[str]:
        living = {node.config.node_id for node in self.living}
        for node in self.living:
            if node.node is None or not node.is_serving:
                yield f"{node.machine.name} does not serve"
                continue
            image = node.node.image
            if not living <= set(image.brokers):
                yield f"{node.machine.name} knows {len(image.brokers)} brokers only"
            topic = image.topics.get(TOPIC)
            if topic is None:
                yield f"{node.machine.name} does not know the topic"
                continue
            for index, partition in topic.partitions.items():
                replicas = set(partition.replicas)
                if not replicas <= living or set(partition.isr) != replicas or partition.leader not in living:
                    yield f"{node.machine.name}: {TOPIC}-{index} {partition}"
                if partition.adding_replicas or partition.removing_replicas:
                    yield f"{node.machine.name}: {TOPIC}-{index} is on its way"


def _quick_to_give_up(config: BrokerConfig) -> BrokerConfig:
    cluster = replace(config.cluster, broker_gone_after_ms=GONE_AFTER_MS, broker_session_timeout_ms=6_000)
    return replace(config, cluster=cluster, quorum=replace(config.quorum, voter_replace_ms=3_000))


@dataclass(frozen=True, slots=True, kw_only=True)
class Talk:
    """Messages per second in a cluster at rest."""

    nodes: int
    forms_s: float
    gossip: float
    """Datagrams of all nodes."""
    gossip_bytes: float
    controller_requests: float
    """Requests and answers on the controller's Kafka port."""
    quorum: float
    """Frames of Raft to and from the controller."""
    replication: float
    """Requests and answers on the other Kafka ports."""
    cpu_s: float
    """What a second of it costs the simulator."""


def measure(nodes: int, *, seed: int = 1) -> Talk:
    large = LargeCluster(nodes, seed=seed, partitions=nodes)
    with large.simulated as simulated:
        large.form()
        forms_s = simulated.world.now
        simulated.world.run_for(5)
        network, controller = simulated.network, large.controller.machine.name
        sent, sent_bytes, writes = network.mail.sent, network.mail.sent_bytes, network.writes.copy()
        began = time.process_time()
        simulated.world.run_for(AT_REST_S)
        cpu_s = time.process_time() - began
        talk = network.writes - writes
    return Talk(
        nodes=nodes,
        forms_s=forms_s,
        gossip=(network.mail.sent - sent) / AT_REST_S,
        gossip_bytes=(network.mail.sent_bytes - sent_bytes) / AT_REST_S,
        controller_requests=talk[controller, PORT] / AT_REST_S,
        quorum=sum(count for (_, port), count in talk.items() if port == CLUSTER_PORT) / AT_REST_S,
        replication=sum(count for (host, port), count in talk.items() if port == PORT and host != controller)
        / AT_REST_S,
        cpu_s=cpu_s / AT_REST_S,
    )


def main(sizes: list[int]) -> None:
    sys.stdout.write("| Nodes | Forms within | Gossip, all nodes | per node | Controller | Quorum | Other brokers |\n")
    sys.stdout.write("|---|---|---|---|---|---|---|\n")
    for size in sizes:
        talk = measure(size)
        sys.stdout.write(
            f"| {size} | {talk.forms_s:.1f} s | {talk.gossip:.0f}/s, {talk.gossip_bytes / 1000:.1f} kB/s"
            f" | {talk.gossip / size:.1f}/s | {talk.controller_requests:.0f}/s | {talk.quorum:.0f}/s"
            f" | {talk.replication:.0f}/s |\n"
        )
        sys.stdout.flush()


if __name__ == "__main__":
    main([int(size) for size in sys.argv[1:]] or [3, 10, 30, 100])
