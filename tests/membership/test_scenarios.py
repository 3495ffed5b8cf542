"""Gossip as transcripts: tests/scenarios/membership.

    cluster 1 2 3                    these nodes run and know each other
    start 4 seeds=1,2 [on=5] [cluster=other | cluster=none] [back=1h]
                                     on another host than its own; of another cluster; with its clock set back
    crash 3 | leave 3 | stop 3 for 2s | load 3 100
    cut 1,2 3 | cut 1 > 2 | heal     both ways between two sides, or one way
    founding 1                       a node without a cluster is given one
    5s pass | views

What happened is who told of what, and how long after the command began. Of `views`: who believes what; -3 has failed
or left, ?3 is suspected.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from ottla.membership import (
    ClusterAdopted,
    Event,
    ForeignCluster,
    Load,
    Member,
    MemberChanged,
    NodeIdConflict,
    Status,
)
from tests.membership.simulation import CLUSTER, Simulation, Weather, address_of
from tests.scenarios import check_scenario, scenario_files

UNITS_MS = {"ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000}
CLUSTERS = {"none": "", "other": "other"}
MARKS = {Status.ALIVE: "", Status.SUSPECT: "?", Status.FAILED: "-", Status.LEFT: "-"}


@pytest.mark.parametrize("path", scenario_files("membership"), ids=lambda path: path.stem)
def test_scenario(path: Path, request: pytest.FixtureRequest) -> None:
    check_scenario(path, Stage().run, request)


class Stage:
    """Runs commands, and tells what comes of them."""

    def __init__(self) -> None:
        self.simulation = Simulation(seed=1, weather=Weather(delay_ms=(1, 1)))

    def run(self, command: str) -> str:
        if command == "views":
            return self._views()
        began_ms = self.simulation.now_ms
        self.simulation.history.clear()
        self._act(command.split())
        if command.startswith("cluster"):
            return "they know each other"
        return self._told(began_ms) or "nothing"

    def _act(self, words: list[str]) -> None:
        simulation = self.simulation
        match words:
            case ["cluster", first, *others]:
                simulation.start(int(first))
                for node in others:
                    simulation.start(int(node), [int(first)])
                assert simulation.run_until_converged(10_000) is not None
            case ["start", node, *options]:
                self._start(int(node), dict(option.split("=") for option in options))
            case ["crash", node]:
                simulation.crash(int(node))
            case ["leave", node]:
                simulation.leave(int(node))
            case ["stop", node, "for", duration]:
                simulation.stop(int(node), milliseconds(duration))
            case ["load", node, figure]:
                simulation[int(node)].set_load(Load(requests_per_s=int(figure)))
            case ["cut", sources, ">", targets]:
                simulation.cut(numbers(sources), numbers(targets))
            case ["cut", side, other]:
                simulation.split(numbers(side), numbers(other))
            case ["heal"]:
                simulation.heal()
            case ["founding", node]:
                simulation.found(int(node))
            case [duration, "pass"]:
                simulation.run(milliseconds(duration))
            case _:
                raise AssertionError(f"no such command: {words}")

    def _start(self, node_id: int, options: dict[str, str]) -> None:
        self.simulation.start(
            node_id,
            numbers(options.get("seeds", "")),
            on=int(options["on"]) if "on" in options else None,
            cluster_id=CLUSTERS[options["cluster"]] if "cluster" in options else CLUSTER,
            clock_set_back_ms=milliseconds(options.get("back", "0ms")),
        )

    def _told(self, began_ms: int) -> str:
        tellers: dict[str, list[tuple[int, int]]] = {}
        for happened in self.simulation.history:
            tellers.setdefault(told(happened.event), []).append((happened.observer, happened.at_ms - began_ms))
        return "; ".join(f"{what} ({told_by(by)})" for what, by in tellers.items())

    def _views(self) -> str:
        holders: dict[str, list[str]] = {}
        for host in sorted(self.simulation.up):
            holders.setdefault(view_of(self.simulation[host].members()), []).append(str(host))
        return "; ".join(f"{' '.join(hosts)} see {view}" for view, hosts in holders.items())


def told(event: Event) -> str:
    match event:
        case MemberChanged(change=change, member=member):
            return f"{member.node_id} {change}"
        case NodeIdConflict(node_id=node_id, held_by=held_by, claimed_by=claimed_by):
            return f"{node_id} is on {host_of(held_by.host)}, claimed on {host_of(claimed_by.host)}"
        case ForeignCluster(cluster_id=cluster_id, node_id=node_id):
            return f"{node_id} is of cluster {'this' if cluster_id == CLUSTER else cluster_id}"
        case ClusterAdopted(cluster_id=cluster_id):
            return f"joins cluster {'this' if cluster_id == CLUSTER else cluster_id}"


def told_by(tellers: Sequence[tuple[int, int]]) -> str:
    """1 2 after 650-656ms"""
    who = " ".join(str(observer) for observer in sorted({observer for observer, _ in tellers}))
    first_ms, last_ms = min(at_ms for _, at_ms in tellers), max(at_ms for _, at_ms in tellers)
    return f"{who} after {first_ms}ms" if first_ms == last_ms else f"{who} after {first_ms}-{last_ms}ms"


def view_of(members: Sequence[Member]) -> str:
    return " ".join(MARKS[member.status] + str(member.node_id) for member in members)


def host_of(host: str) -> int:
    return next(number for number in range(256) if address_of(number).host == host)


def numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",") if number]


def milliseconds(duration: str) -> int:
    match = re.fullmatch(r"(\d+)(ms|s|min|h)", duration)
    assert match is not None, duration
    return int(match[1]) * UNITS_MS[match[2]]
