"""The cluster port of whole nodes: both protocols, addresses, and what is told of them."""

import asyncio
import socket
from typing import Any

import pytest
import uvloop

from ottla.config import BrokerConfig
from ottla.errors import ConfigError, PortTakenError
from ottla.membership import Address
from ottla.metadata.image import Endpoint
from ottla.runtime.cluster_door import ClusterDoor, cluster_address
from ottla.runtime.node import Node
from ottla.testing.disk import CrashingDisk
from tests.cluster_rig import ClusterRig


def run(scenario: Any) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.wait_for(scenario(), 30))


def node(**settings: Any) -> Node:
    config = BrokerConfig(port=0, **settings)
    return Node(config, loop=asyncio.get_running_loop(), disk=CrashingDisk())


def test_port_0_takes_one_that_is_free_for_both() -> None:
    async def scenario() -> None:
        started = node(cluster_port=0)
        await started.start()
        door = started.door
        assert door is not None
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            with socket.socket(socket.AF_INET, kind) as other, pytest.raises(OSError, match="in use"):
                other.bind(("127.0.0.1", door.port))
        await started.stop()

    run(scenario)


def test_a_tcp_port_that_is_taken_is_told_and_nothing_stays_open() -> None:
    async def scenario() -> None:
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            port = other.getsockname()[1]
            with pytest.raises(PortTakenError, match=str(port)):
                await node(cluster_port=port).start()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as again:
            again.bind(("127.0.0.1", port))

    run(scenario)


def test_a_port_to_be_taken_if_it_is_free_may_be_taken() -> None:
    async def scenario() -> None:
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            port = other.getsockname()[1]
            config = BrokerConfig(port=0)
            alone = Node(config, loop=asyncio.get_running_loop(), disk=CrashingDisk(), cluster_port_if_free=port)
            await alone.start()
            assert alone.door is None
            await alone.stop()

    run(scenario)


def test_seeds_need_a_cluster_port() -> None:
    async def scenario() -> None:
        with pytest.raises(ConfigError, match="cluster_port"):
            await node(seeds=frozenset({"a:1"})).start()

    run(scenario)


def test_too_many_seeds_are_refused() -> None:
    async def scenario() -> None:
        with pytest.raises(ConfigError, match="at most 32"):
            await node(cluster_port=0, seeds=frozenset(f"h{number}:1" for number in range(33))).start()

    run(scenario)


def test_an_advertised_host_that_nobody_knows_is_refused() -> None:
    async def scenario() -> None:
        with pytest.raises(ConfigError, match=r"advertised_address.*nowhere\.invalid"):
            await node(cluster_port=0, advertised_address="nowhere.invalid").start()

    run(scenario)


def test_the_cluster_address_is_the_endpoint_of_that_name() -> None:
    clients, others = Endpoint("PLAINTEXT", "a", 1, 0), Endpoint("CLUSTER", "b", 2, 0)

    assert cluster_address([clients, others]) == Address("b", 2)
    assert cluster_address([clients]) is None


def test_nodes_know_where_the_others_are() -> None:
    async def scenario() -> None:
        rig = ClusterRig(3)
        await rig.start()
        try:
            for started in rig.nodes.values():
                door = started.node.door
                assert isinstance(door, ClusterDoor)
                await rig.until(lambda door=door: _knows_all(rig, door))  # type: ignore[misc]  # bound per node
        finally:
            await rig.stop()

    run(scenario)


def _knows_all(rig: ClusterRig, door: ClusterDoor) -> bool:
    return all(door.resolve(node_id) == ("127.0.0.1", port) for node_id, port in rig.ports.items())
