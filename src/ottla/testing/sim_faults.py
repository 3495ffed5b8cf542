"""What goes wrong in a simulation, and when: drawn from the seed, within what the test allows."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.testing.disk import Fault, Operation
from ottla.testing.sim_network import Link

if TYPE_CHECKING:
    from ottla.testing.sim_network import Network
    from ottla.testing.sim_node import SimulatedNode
    from ottla.testing.sim_world import World

SLOW_LINK = Link(delay_s_min=0.001, delay_s_max=0.4)
SKEWS_MS = (-1_200_000, -5_000, -50, 0, 50, 5_000, 1_200_000)
"""Less than the hour by which a record's timestamp may be ahead of its broker's clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """How often each kind is chosen, relative to the others; 0 is never."""

    kill: float = 0
    """The process dies, the machine does not: nothing that was written is lost."""
    power_loss: float = 0
    """What was not synced is lost, torn or mixed up."""
    crash_while_starting: float = 0
    """How likely a start ends in another crash, in the middle of recovery: a probability."""
    restart: float = 0
    """In good order."""
    lost_client: float = 0
    """A client process dies, and another one takes its place."""
    cut: float = 0
    """A client can't reach a node, or is not reached by it, or both, for a while."""
    reset: float = 0
    slow_network: float = 0
    slow_disk: float = 0
    full_disk: float = 0
    failed_sync: float = 0
    """A sync returns EIO; the node is killed some time later."""
    clock_jump: float = 0
    pause_s_max: float = 4.0
    """The longest time between two faults."""

    @classmethod
    def none(cls) -> Faults:
        return cls()

    @classmethod
    def all(cls) -> Faults:
        return cls(
            kill=2, power_loss=5, restart=1, cut=2, reset=2, slow_network=1, slow_disk=2, full_disk=1, failed_sync=1,
            clock_jump=1, lost_client=1, crash_while_starting=0.2,
        )  # fmt: skip

    @classmethod
    def crashes(cls) -> Faults:
        return cls(kill=1, power_loss=4, slow_disk=4, reset=1, crash_while_starting=0.2, pause_s_max=2.0)


class FaultInjector:
    """Does one thing after another until it is told to stop; everything but a crash passes by itself."""

    def __init__(
        self,
        world: World,
        network: Network,
        faults: Faults,
        *,
        nodes: Sequence[SimulatedNode],
        clients: Callable[[], list[str]],
        replace_client: Callable[[str], None],
    ) -> None:
        """`clients` are the machines that nodes can be cut off from, `replace_client` kills what runs on one."""
        self._world = world
        self._network = network
        self._faults = faults
        self._nodes = nodes
        self._clients = clients
        self._replace_client = replace_client
        self._dice = world.dice("faults")
        self._is_over = False
        self._kinds: dict[Callable[[SimulatedNode], None], float] = {
            self._kill: faults.kill,
            self._power_loss: faults.power_loss,
            self._restart: faults.restart,
            self._lost_client: faults.lost_client,
            self._cut: faults.cut,
            self._reset: faults.reset,
            self._slow_network: faults.slow_network,
            self._slow_disk: faults.slow_disk,
            self._full_disk: faults.full_disk,
            self._failed_sync: faults.failed_sync,
            self._clock_jump: faults.clock_jump,
        }

    def start(self) -> None:
        if any(self._kinds.values()):
            self._next_soon()
        for node in self._nodes:
            node.crash_while_starting = self._faults.crash_while_starting

    def stop(self) -> None:
        """Mend everything, and start again what can't be mended."""
        self._is_over = True
        self._network.link = Link()
        self._network.heal()
        for node in self._nodes:
            self._mend_disk(node)
            node.crash_while_starting = 0.0
            node.machine.crash_at_operation(None)
            if node.has_failed:
                node.machine.crash(power=False)

    def _next_soon(self) -> None:
        self._world.after(self._dice.uniform(0, self._faults.pause_s_max), self._strike)

    def _strike(self) -> None:
        if not self._is_over:
            kinds, weights = zip(*self._kinds.items(), strict=True)
            self._dice.choices(kinds, weights=weights)[0](self._dice.choice(self._nodes))
            self._next_soon()

    def _while(self, seconds_max: float, end: Callable[[], None]) -> None:
        self._world.after(self._dice.uniform(0, seconds_max), end)

    # The kinds.

    def _kill(self, node: SimulatedNode) -> None:
        self._crash(node, power=False)

    def _power_loss(self, node: SimulatedNode) -> None:
        self._crash(node, power=True)

    def _crash(self, node: SimulatedNode, *, power: bool) -> None:
        """Now, or in the middle of what the node does next."""
        if self._dice.random() < 0.5:
            node.machine.crash(power=power)
        else:
            node.machine.crash_at_operation(self._dice.randint(1, 30), power=power)

    def _restart(self, node: SimulatedNode) -> None:
        node.restart_in_order()

    def _lost_client(self, _node: SimulatedNode) -> None:
        self._replace_client(self._dice.choice(self._clients()))

    def _cut(self, node: SimulatedNode) -> None:
        client, host = self._dice.choice(self._clients()), node.machine.name
        ways = self._dice.choice((((client, host),), ((host, client),), ((client, host), (host, client))))
        for source, target in ways:
            self._network.cut(source, target)
        self._while(8.0, self._network.heal)

    def _reset(self, _node: SimulatedNode) -> None:
        self._network.reset_one()

    def _slow_network(self, _node: SimulatedNode) -> None:
        self._network.link = SLOW_LINK
        self._world.note("network", "is slow")
        self._while(3.0, self._mend_link)

    def _mend_link(self) -> None:
        self._network.link = Link()

    def _slow_disk(self, node: SimulatedNode) -> None:
        node.machine.slow_sync_s = self._dice.choice((0.02, 0.3, 4.0))
        self._world.note(node.machine.name, f"the disk is slow: {node.machine.slow_sync_s} s")
        self._while(5.0, lambda: self._mend_disk(node))

    def _full_disk(self, node: SimulatedNode) -> None:
        node.machine.disk.faults.append(Fault(operation=Operation.WRITE, errno=errno.ENOSPC))
        self._world.note(node.machine.name, "the disk is full")
        self._while(3.0, lambda: self._mend_disk(node))

    def _failed_sync(self, node: SimulatedNode) -> None:
        """Of any file, which mostly is the journal, or of a segment."""
        where = self._dice.choice(("", ".log"))
        fault = Fault(operation=Operation.SYNC, path_contains=where, errno=errno.EIO, times=1)
        node.machine.disk.faults.append(fault)
        self._world.note(node.machine.name, f"the next sync of a file *{where} fails")
        power = self._dice.random() < 0.5
        self._while(3.0, lambda: node.machine.crash(power=power))

    def _clock_jump(self, node: SimulatedNode) -> None:
        skew_ms = self._dice.choice(SKEWS_MS)
        node.machine.clock.set_wrong_by(skew_ms)
        self._world.note(node.machine.name, f"the clock jumps, and is wrong by {skew_ms} ms")

    def _mend_disk(self, node: SimulatedNode) -> None:
        node.machine.slow_sync_s = 0.0
        node.machine.disk.faults.clear()
