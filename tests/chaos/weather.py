"""What can happen to a cluster of three, one thing at a time: it happens, lasts, and ends.

Every kind of weather takes one node at most, so that a majority of the voters and two of three replicas are there
throughout: nothing may be lost, and writers must go on.
"""

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer

from tests.chaos.network import Network
from tests.chaos.shim import Faults, build
from tests.cluster.processes import ClusterNode, ClusterProcesses
from tests.interop.waiting import eventually

TOPIC = "weathered"
PARTITIONS = 6
NODES = 3
CALM_WITHIN_S = 120.0
HOUR_S = 3_600

Kind = Callable[["Weather"], str]


@dataclass(slots=True)
class Machine:
    node: ClusterNode
    faults: Faults


class Weather:
    """A cluster, what is wrong with it, and the dice."""

    def __init__(self, directory: Path, network: Network | None, seed: int) -> None:
        self.dice = random.Random(seed)
        self.network = network
        library = build(directory)
        self.cluster = ClusterProcesses(directory, NODES, "--set", "log.min_insync_replicas=2")
        self.machines: dict[int, Machine] = {}
        for node_id, node in self.cluster.nodes.items():
            faults = Faults(directory / f"faults-{node_id}")
            node.environment = faults.environment(library)
            self.machines[node_id] = Machine(node, faults)
        if network is not None:
            self._move_into(network)
        self._over = threading.Event()

    def _move_into(self, network: Network) -> None:
        for node_id, node in self.cluster.nodes.items():
            node.move(network.host(node_id), network.prefix(node_id))
        seeds = [node.cluster_address for node in self.cluster.nodes.values()]
        for node in self.cluster.nodes.values():
            node.seeds = seeds

    # Who

    def any(self) -> Machine:
        return self.machines[self.dice.randint(1, NODES)]

    def controller(self) -> Machine:
        return self.machines[self.cluster.controller().node_id]

    def somebody_else(self) -> Machine:
        chief = self.cluster.controller().node_id
        return self.machines[self.dice.choice([node_id for node_id in self.machines if node_id != chief])]

    def last(self, least_s: float, most_s: float) -> None:
        """Let it be so for a while."""
        self._over.wait(self.dice.uniform(least_s, most_s))

    # And then

    def clear_up(self, producer: Producer) -> None:
        """Everything is mended, and the cluster comes to rest: all nodes serve, and all replicas are in sync."""
        if self.network is not None:
            self.network.heal()
        for machine in self.machines.values():
            machine.faults.heal()
            if not machine.node.alive():
                machine.node.start()
        self.cluster.until_brokers(*self.machines)
        eventually(lambda: _all_in_sync(producer), within_s=CALM_WITHIN_S, what=f"in sync\n{self.cluster.logs()}")


def _all_in_sync(producer: Producer) -> bool:
    partitions = producer.list_topics(TOPIC, 10).topics[TOPIC].partitions.values()
    return len(partitions) == PARTITIONS and all(len(partition.isrs) == NODES for partition in partitions)


# Kinds of weather. Each says what it did, for the log of a run that fails.


def kill_controller(weather: Weather) -> str:
    return _kill(weather, weather.controller())


def kill_another(weather: Weather) -> str:
    return _kill(weather, weather.somebody_else())


def _kill(weather: Weather, machine: Machine) -> str:
    machine.node.kill()
    weather.last(0.1, 3)
    return f"kill -9 of node {machine.node.node_id}"


def stop_cleanly(weather: Weather) -> str:
    machine = weather.any()
    assert machine.node.stop() == 0, machine.node.log()
    return f"clean stop of node {machine.node.node_id}"


def pause(weather: Weather) -> str:
    """For longer than a broker's session."""
    machine = weather.any()
    machine.node.pause()
    weather.last(7, 9)
    machine.node.resume()
    return f"SIGSTOP of node {machine.node.node_id}"


def disk_full(weather: Weather) -> str:
    machine = weather.any()
    machine.faults.set(disk_is_full=True)
    weather.last(1, 4)
    return f"full disk of node {machine.node.node_id}"


def disk_fails(weather: Weather) -> str:
    """A sync fails: the node must not go on as if it had worked."""
    machine = weather.any()
    machine.faults.set(sync_fails=True)
    weather.last(3, 6)
    machine.node.kill()
    return f"EIO on fsync of node {machine.node.node_id}"


def clock_jumps(weather: Weather) -> str:
    """Not by more than an hour back: a leader refuses records from so far in its future, as Kafka's do."""
    machine, hours = weather.any(), weather.dice.choice([-1, 1, 24])
    machine.faults.set(clock_offset_s=hours * HOUR_S)
    weather.last(2, 5)
    return f"clock of node {machine.node.node_id} by {hours} h"


def cut_off(weather: Weather) -> str:
    return _isolate(weather, weather.any(), sends=True, receives=True)


def cut_off_controller(weather: Weather) -> str:
    return _isolate(weather, weather.controller(), sends=True, receives=True)


def speaks_to_nobody(weather: Weather) -> str:
    return _isolate(weather, weather.any(), sends=True, receives=False)


def hears_nobody(weather: Weather) -> str:
    return _isolate(weather, weather.any(), sends=False, receives=True)


def _isolate(weather: Weather, machine: Machine, *, sends: bool, receives: bool) -> str:
    assert weather.network is not None
    weather.network.isolate(machine.node.node_id, sends=sends, receives=receives)
    weather.last(4, 10)
    return f"node {machine.node.node_id} is cut off (sends: {sends}, receives: {receives})"


def one_link_is_cut(weather: Weather) -> str:
    assert weather.network is not None
    one, two = weather.dice.sample(sorted(weather.machines), 2)
    weather.network.cut(one, two)
    weather.network.cut(two, one)
    weather.last(4, 10)
    return f"no way between nodes {one} and {two}"


ANYWHERE: tuple[Kind, ...] = (
    kill_controller,
    kill_another,
    stop_cleanly,
    pause,
    disk_full,
    disk_fails,
    clock_jumps,
)
WITH_NETWORK: tuple[Kind, ...] = (cut_off, cut_off_controller, speaks_to_nobody, hears_nobody, one_link_is_cut)
