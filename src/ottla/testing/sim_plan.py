"""What goes wrong in a simulation, and when: a list of strikes, drawn from the seed before anything happens.

A strike holds every choice that it makes, so that one can be left out and the others stay as they are: that is how a
failing run is made smaller (`sim_shrink`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from random import Random

KINDS_FIELDS_END = "pause_s_max"


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """How often each kind is chosen, relative to the others; 0 is never."""

    kill: float = 0
    """The process dies, the machine does not: nothing that was written is lost."""
    power_loss: float = 0
    """What was not synced is lost, torn or mixed up."""
    blackout: float = 0
    """All machines lose their power at once, and come back one by one."""
    restart: float = 0
    """In good order."""
    freeze: float = 0
    """SIGSTOP: the process does nothing for a while, and does not know that time has passed."""
    lost_client: float = 0
    """A client process dies, and another one takes its place."""
    cut: float = 0
    """A client can't reach a node, or is not reached by it, or both, for a while."""
    cut_nodes: float = 0
    """The same between two nodes."""
    isolate: float = 0
    """The same between one node and all other nodes."""
    split: float = 0
    """The nodes fall into two halves that don't reach each other."""
    reset: float = 0
    slow_network: float = 0
    slow_link: float = 0
    """One node is far away from all others."""
    lossy_network: float = 0
    """Packets get lost, and datagrams arrive twice."""
    slow_disk: float = 0
    full_disk: float = 0
    failed_sync: float = 0
    """A sync returns EIO; the node is killed some time later."""
    dead_disk: float = 0
    """For a while no sync works."""
    clock_jump: float = 0
    pause_s_max: float = 4.0
    """The longest time between two faults."""
    crash_while_starting: float = 0
    """How likely a start ends in another crash, in the middle of recovery: a probability."""
    down_s_max: float = 2.0
    """The longest time until a node that died is started again."""

    @classmethod
    def none(cls) -> Faults:
        return cls()

    @classmethod
    def all(cls) -> Faults:
        """Everything that can happen to one node."""
        return cls(
            kill=2, power_loss=5, restart=1, cut=2, reset=2, slow_network=1, slow_disk=2, full_disk=1, failed_sync=1,
            clock_jump=1, lost_client=1, crash_while_starting=0.2,
        )  # fmt: skip

    @classmethod
    def crashes(cls) -> Faults:
        return cls(kill=1, power_loss=4, slow_disk=4, reset=1, crash_while_starting=0.2, pause_s_max=2.0)

    @classmethod
    def cluster(cls) -> Faults:
        """Everything that can happen to nodes and between them."""
        return cls(
            kill=2, power_loss=4, blackout=1, restart=1, freeze=2, lost_client=1, cut=1, cut_nodes=3, isolate=3,
            split=1, reset=2, slow_network=1, slow_link=1, lossy_network=1, slow_disk=2, full_disk=1, failed_sync=1,
            dead_disk=1, clock_jump=1, crash_while_starting=0.1, pause_s_max=4.0, down_s_max=8.0,
        )  # fmt: skip

    @classmethod
    def restarts(cls) -> Faults:
        """One node after the other in good order, some of them far away: they hear late of what they lead."""
        return cls(restart=3, slow_link=4, pause_s_max=1.0, down_s_max=0.5)

    @classmethod
    def partitions(cls) -> Faults:
        """The network alone."""
        return cls(cut=1, cut_nodes=4, isolate=4, split=2, reset=1, slow_link=1, lossy_network=1, freeze=2)

    def weights(self) -> dict[str, float]:
        names = [each.name for each in fields(self)]
        return {name: getattr(self, name) for name in names[: names.index(KINDS_FIELDS_END)]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Strike:
    """One fault. Which of these numbers matter, and for what, depends on its kind."""

    at_s: float
    """After the clients have started."""
    kind: str
    node: int
    """Which node, from 0."""
    length_s: float
    """How long it lasts, as a part of the longest for its kind."""
    down_s: float
    """When a node dies of it: how long until it is started again."""
    choices: int
    """Everything else, as the seed of a generator."""

    def dice(self) -> Random:
        return Random(self.choices)

    def __str__(self) -> str:
        return f"{self.at_s:7.3f} s  {self.kind} at node {self.node + 1}"


Plan = Sequence[Strike]


def draw(dice: Random, faults: Faults, *, nodes: int, seconds: float) -> Plan:
    kinds = {kind: weight for kind, weight in faults.weights().items() if weight}
    plan: list[Strike] = []
    at_s = dice.uniform(0, faults.pause_s_max)
    while kinds and at_s < seconds:
        plan.append(
            Strike(
                at_s=at_s,
                kind=dice.choices(list(kinds), weights=list(kinds.values()))[0],
                node=dice.randrange(nodes),
                length_s=dice.random(),
                down_s=dice.uniform(0, faults.down_s_max),
                choices=dice.getrandbits(32),
            )
        )
        at_s += dice.uniform(0, faults.pause_s_max)
    return plan
