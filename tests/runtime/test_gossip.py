"""Gossip on real sockets; what the core believes is tested in `tests/membership`."""

import asyncio
import logging
import random

import pytest

from ottla.config import GossipConfig
from ottla.errors import PortTakenError
from ottla.membership import Change, Load, MemberChanged, Status
from ottla.runtime.cluster_socket import ClusterSocket, is_literal
from ottla.runtime.gossip import Gossip
from ottla.runtime.known_nodes import read_known_nodes, write_known_nodes
from ottla.testing.disk import CrashingDisk
from tests.runtime.cluster_ports import HOST, Port, run, until


def knows(gossip: Gossip, *node_ids: int) -> bool:
    return {member.node_id for member in gossip.members() if member.is_live} == set(node_ids)


async def cluster(*node_ids: int) -> list[tuple[Port, Gossip]]:
    opened = [await Port.open(node_id) for node_id in node_ids]
    pairs = [(port, port.start_gossip([opened[0].name])) for port in opened]
    await until(lambda: all(knows(gossip, *node_ids) for _, gossip in pairs))
    return pairs


def close(pairs: list[tuple[Port, Gossip]]) -> None:
    for port, _ in pairs:
        port.die()


def test_nodes_find_each_other_and_know_their_addresses() -> None:
    async def scenario() -> None:
        pairs = await cluster(1, 2, 3)

        assert all(gossip.address_of(port.node_id) == port.address for _, gossip in pairs for port, _ in pairs)
        assert pairs[0][1].address_of(9) is None
        close(pairs)

    run(scenario)


def test_a_dead_node_is_suspected_within_a_second() -> None:
    async def scenario() -> None:
        (one, _), two, three = await cluster(1, 2, 3)
        changes: list[MemberChanged] = []
        two[1].on_change(changes.append)
        one.die()
        died = asyncio.get_running_loop().time()

        await until(lambda: 1 in two[1].dead())

        assert asyncio.get_running_loop().time() - died < 1.0
        assert [event.change for event in changes if event.member.node_id == 1] == [Change.SUSPECTED]
        close([two, three])

    run(scenario)


def test_a_node_whose_process_has_ended_is_suspected_at_once_until_it_answers() -> None:
    async def scenario() -> None:
        pairs = await cluster(1, 2, 3)
        gossip = pairs[1][1]
        changes: list[MemberChanged] = []
        gossip.on_change(changes.append)
        gossip.process_ended(1)
        seen = gossip.dead(), gossip.ended()
        await until(lambda: not gossip.dead())
        gossip.process_ended(9)
        told = [event.change for event in changes]
        pairs[0][0].die()
        await until(lambda: 1 in gossip.dead())
        close(pairs[1:])

        assert seen == (frozenset({1}), frozenset({1}))
        assert told == [Change.SUSPECTED, Change.ALIVE]
        assert gossip.ended() == frozenset(), "it was wrong the first time, and the second time nobody has seen it"

    run(scenario)


def test_one_that_leaves_says_so() -> None:
    async def scenario() -> None:
        (one, gossip), two, three = await cluster(1, 2, 3)

        await gossip.stop()

        await until(lambda: all(_status(other, 1) == Status.LEFT for _, other in (two, three)))
        one.die()
        close([two, three])

    run(scenario)


def _status(gossip: Gossip, node_id: int) -> Status | None:
    member = gossip.member(node_id)
    return None if member is None else member.status


def test_a_node_alone_leaves_at_once() -> None:
    async def scenario() -> None:
        port = await Port.open(1)
        gossip = port.start_gossip()
        began = asyncio.get_running_loop().time()

        await gossip.stop()

        assert asyncio.get_running_loop().time() - began < 0.1
        port.die()

    run(scenario)


def test_load_figures_travel() -> None:
    async def scenario() -> None:
        config = GossipConfig(load_interval_ms=10)
        one, two = await Port.open(1), await Port.open(2)
        carried = Load(bytes_in_per_s=5, bytes_out_per_s=6, requests_per_s=7, partitions=8, leaders=9)
        one.start_gossip(config=config, load=carried)
        gossip = two.start_gossip([one.name], config=config)

        await until(lambda: (member := gossip.member(1)) is not None and member.load == carried)
        close([(one, gossip), (two, gossip)])

    run(scenario)


def test_garbage_does_no_harm() -> None:
    async def scenario() -> None:
        pairs = await cluster(1, 2)
        port, gossip = pairs[0]
        loop = asyncio.get_running_loop()
        dice = random.Random(7)
        stranger, _ = await loop.create_datagram_endpoint(asyncio.DatagramProtocol, remote_addr=port.address)
        for size in range(0, 1_400, 7):
            stranger.sendto(dice.randbytes(size))
            stranger.sendto(b"\0\0\0\0og" + dice.randbytes(size))
            stranger.sendto(b"\0\0\0\0of" + dice.randbytes(size))
            await asyncio.sleep(0)  # the socket's buffer does not hold them all
        await until(lambda: gossip.counters.garbage > 100)

        assert knows(gossip, 1, 2)
        stranger.close()
        close(pairs)

    run(scenario)


def test_nodes_that_were_all_stopped_find_each_other_without_seeds() -> None:
    async def scenario() -> None:
        pairs = await cluster(1, 2, 3)
        await until(lambda: all(len(read_known_nodes(port.disk)) == 2 for port, _ in pairs))
        close(pairs)
        old = [port for port, _ in pairs[1:]]

        again = [await Port.open(port.node_id, port=port.socket.port, disk=port.disk) for port in old]
        gossips = [port.start_gossip() for port in again]

        await until(lambda: all(knows(gossip, 2, 3) for gossip in gossips))
        close(list(zip(again, gossips, strict=True)))

    run(scenario)


def test_registered_brokers_are_looked_for() -> None:
    async def scenario() -> None:
        one, two = await Port.open(1), await Port.open(2)
        pairs = [(one, one.start_gossip()), (two, two.start_gossip())]

        pairs[0][1].set_registered([two.address])

        await until(lambda: all(knows(gossip, 1, 2) for _, gossip in pairs))
        close(pairs)

    run(scenario)


def test_another_cluster_is_not_listened_to_and_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        one, two = await Port.open(1), await Port.open(2)
        pairs = [(one, one.start_gossip()), (two, two.start_gossip([one.name], cluster_id="other"))]

        await until(lambda: "is of another cluster" in caplog.text)

        assert knows(pairs[0][1], 1)
        close(pairs)

    with caplog.at_level(logging.ERROR):
        run(scenario)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_port_that_is_taken_is_told() -> None:
    """uvloop warns of the socket that it could not bind, and that it does not hand out."""

    async def scenario() -> None:
        port = await Port.open(1)
        with pytest.raises(PortTakenError, match=f"UDP port {port.socket.port} .* is taken"):
            await ClusterSocket.open(asyncio.get_running_loop(), HOST, port.socket.port, buffer_bytes=4096)
        port.die()

    run(scenario)


def test_nothing_is_sent_to_a_name() -> None:
    assert is_literal("10.0.0.1")
    assert is_literal("::1")
    assert not is_literal("example.org")
    assert not is_literal("")


@pytest.mark.parametrize("text", ["", "\n\n", "no place at all\n", "a:b\n", "a:1:2\n"])
def test_a_file_of_known_nodes_that_is_none_is_nothing(text: str) -> None:
    disk = CrashingDisk()
    file = disk.open("known-nodes", create=True)
    file.pwritev([text.encode()], 0)

    assert read_known_nodes(disk) == ()


def test_known_nodes_survive() -> None:
    disk = CrashingDisk()

    write_known_nodes(disk, ["a:1", "[::1]:2"])

    assert read_known_nodes(disk.crash()) == ("a:1", "[::1]:2")
