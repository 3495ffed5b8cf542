"""Carries out a plan of faults: every strike at its time, and its end by itself."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ottla.testing.disk import Fault, Operation
from ottla.testing.sim_links import Link, Way
from ottla.testing.sim_plan import Plan, Strike

if TYPE_CHECKING:
    from ottla.testing.sim_network import Network
    from ottla.testing.sim_node import SimulatedNode
    from ottla.testing.sim_world import World

SLOW_LINK = Link(delay_s_min=0.001, delay_s_max=0.4)
FAR_LINKS = (Link(delay_s_min=0.03, delay_s_max=0.06), SLOW_LINK, Link(delay_s_min=0.2, delay_s_max=0.3))
LOSSY_LINKS = (Link(loss=0.05, duplication=0.02), Link(loss=0.3, duplication=0.05, delay_s_max=0.02))
SKEWS_MS = (-1_200_000, -5_000, -50, 0, 50, 5_000, 1_200_000)
"""Less than the hour by which a record's timestamp may be ahead of its broker's clock."""
CUT_S_MAX = 10.0
FREEZE_S_MAX = 12.0
"""Longer than a broker's session."""


class FaultInjector:
    def __init__(
        self,
        world: World,
        network: Network,
        plan: Plan,
        *,
        nodes: Sequence[SimulatedNode],
        clients: Callable[[], list[str]],
        replace_client: Callable[[str], None],
        crash_while_starting: float = 0.0,
    ) -> None:
        """`clients` are the machines that nodes can be cut off from, `replace_client` kills what runs on one."""
        self._world = world
        self._network = network
        self._plan = plan
        self._nodes = nodes
        self._clients = clients
        self._replace_client = replace_client
        self._crash_while_starting = crash_while_starting
        self._is_over = False
        self._kinds: dict[str, Callable[[Strike, SimulatedNode], None]] = {
            "kill": lambda strike, node: self._crash(strike, node, power=False),
            "power_loss": lambda strike, node: self._crash(strike, node, power=True),
            "blackout": self._blackout,
            "restart": lambda _, node: node.restart_in_order(),
            "freeze": self._freeze,
            "lost_client": self._lost_client,
            "cut": self._cut_client,
            "cut_nodes": self._cut_nodes,
            "isolate": self._isolate,
            "split": self._split,
            "reset": lambda *_: network.reset_one(),
            "slow_network": self._slow_network,
            "slow_link": self._slow_link,
            "lossy_network": self._lossy_network,
            "slow_disk": self._slow_disk,
            "full_disk": self._full_disk,
            "failed_sync": self._failed_sync,
            "dead_disk": self._dead_disk,
            "clock_jump": self._clock_jump,
        }

    def start(self) -> None:
        for strike in self._plan:
            self._world.after(strike.at_s, self._strike, strike)
        for node in self._nodes:
            node.crash_while_starting = self._crash_while_starting

    def stop(self) -> None:
        """Mend everything, and start again what can't be mended."""
        self._is_over = True
        self._network.heal()
        for node in self._nodes:
            self._mend_disk(node)
            node.crash_while_starting = 0.0
            node.machine.crash_at_operation(None)
            node.machine.go_on()
            if node.has_failed:
                node.machine.crash(power=False)

    def _strike(self, strike: Strike) -> None:
        if not self._is_over:
            node = self._nodes[strike.node]
            node.down_s = strike.down_s
            self._kinds[strike.kind](strike, node)

    def _while(self, strike: Strike, seconds_max: float, end: Callable[[], None]) -> None:
        def end_it() -> None:
            if not self._is_over:
                end()

        self._world.after(strike.length_s * seconds_max, end_it)

    # Processes.

    def _crash(self, strike: Strike, node: SimulatedNode, *, power: bool) -> None:
        """Now, or in the middle of what the node does next."""
        dice = strike.dice()
        if dice.random() < 0.5:
            node.machine.crash(power=power)
        else:
            node.machine.crash_at_operation(dice.randint(1, 30), power=power)

    def _blackout(self, strike: Strike, _node: SimulatedNode) -> None:
        dice = strike.dice()
        for node in self._nodes:
            node.down_s = dice.uniform(0, 2 * strike.down_s)
            node.machine.crash(power=True)

    def _freeze(self, strike: Strike, node: SimulatedNode) -> None:
        node.machine.freeze()
        self._while(strike, FREEZE_S_MAX, node.machine.go_on)

    def _lost_client(self, strike: Strike, _node: SimulatedNode) -> None:
        self._replace_client(strike.dice().choice(self._clients()))

    # The network.

    def _cut_client(self, strike: Strike, node: SimulatedNode) -> None:
        dice = strike.dice()
        self._cut(strike, _some_ways(dice.choice(self._clients()), node.machine.name, dice.randrange(3)))

    def _cut_nodes(self, strike: Strike, node: SimulatedNode) -> None:
        dice, others = strike.dice(), self._others(node)
        if others:
            self._cut(strike, _some_ways(dice.choice(others), node.machine.name, dice.randrange(3)))

    def _isolate(self, strike: Strike, node: SimulatedNode) -> None:
        which = strike.dice().randrange(3)
        self._cut(strike, [way for other in self._others(node) for way in _some_ways(other, node.machine.name, which)])

    def _split(self, strike: Strike, node: SimulatedNode) -> None:
        dice, others = strike.dice(), self._others(node)
        with_it = [node.machine.name, *(other for other in others if dice.random() < 0.5)]
        against = [other for other in others if other not in with_it]
        self._cut(strike, [way for one in with_it for other in against for way in _some_ways(one, other, 2)])

    def _others(self, node: SimulatedNode) -> list[str]:
        return [other.machine.name for other in self._nodes if other is not node]

    def _cut(self, strike: Strike, ways: list[Way]) -> None:
        self._network.cut(*ways)
        self._while(strike, CUT_S_MAX, lambda: self._network.mend(*ways))

    def _slow_network(self, strike: Strike, _node: SimulatedNode) -> None:
        self._change(strike, "is slow", self._all_ways(), SLOW_LINK, 3.0)

    def _slow_link(self, strike: Strike, node: SimulatedNode) -> None:
        name = node.machine.name
        ways = [way for way in self._all_ways() if name in way]
        self._change(strike, f"{name} is far away", ways, strike.dice().choice(FAR_LINKS), 8.0)

    def _lossy_network(self, strike: Strike, _node: SimulatedNode) -> None:
        self._change(strike, "loses packets", self._all_ways(), strike.dice().choice(LOSSY_LINKS), 8.0)

    def _all_ways(self) -> list[Way]:
        names = [*(node.machine.name for node in self._nodes), *self._clients()]
        return [(one, other) for one in names for other in names if one != other]

    def _change(self, strike: Strike, what: str, ways: list[Way], link: Link, seconds_max: float) -> None:
        self._world.note("network", what)
        self._network.change(ways, link)
        self._while(strike, seconds_max, lambda: self._network.change_back(ways, link))

    # Disks and clocks.

    def _slow_disk(self, strike: Strike, node: SimulatedNode) -> None:
        node.machine.slow_sync_s = strike.dice().choice((0.02, 0.3, 4.0))
        self._world.note(node.machine.name, f"the disk is slow: {node.machine.slow_sync_s} s")
        self._while(strike, 5.0, lambda: self._mend_disk(node))

    def _full_disk(self, strike: Strike, node: SimulatedNode) -> None:
        node.machine.disk.faults.append(Fault(operation=Operation.WRITE, errno=errno.ENOSPC))
        self._world.note(node.machine.name, "the disk is full")
        self._while(strike, 3.0, lambda: self._mend_disk(node))

    def _failed_sync(self, strike: Strike, node: SimulatedNode) -> None:
        """Of any file, which mostly is the journal, or of a segment."""
        dice = strike.dice()
        where = dice.choice(("", ".log"))
        fault = Fault(operation=Operation.SYNC, path_contains=where, errno=errno.EIO, times=1)
        node.machine.disk.faults.append(fault)
        self._world.note(node.machine.name, f"the next sync of a file *{where} fails")
        power = dice.random() < 0.5
        self._while(strike, 3.0, lambda: node.machine.crash(power=power))

    def _dead_disk(self, strike: Strike, node: SimulatedNode) -> None:
        node.machine.disk.faults.append(Fault(operation=Operation.SYNC, errno=errno.EIO))
        self._world.note(node.machine.name, "the disk is dead")
        self._while(strike, 6.0, lambda: self._mend_disk(node))

    def _clock_jump(self, strike: Strike, node: SimulatedNode) -> None:
        skew_ms = strike.dice().choice(SKEWS_MS)
        node.machine.clock.set_wrong_by(skew_ms)
        self._world.note(node.machine.name, f"the clock jumps, and is wrong by {skew_ms} ms")

    def _mend_disk(self, node: SimulatedNode) -> None:
        node.machine.slow_sync_s = 0.0
        node.machine.disk.faults.clear()


def _some_ways(one: str, other: str, which: int) -> list[Way]:
    """There, back, or both."""
    return [[(one, other)], [(other, one)], [(one, other), (other, one)]][which]
