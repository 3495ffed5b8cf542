"""The links between simulated machines, each direction of each pair on its own: how long, how lossy, whether cut.

Addresses are names of machines, or the numbers that stand for them. Faults overlap: a link that was cut twice is whole
when both cuts have been mended.
"""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.testing.sim_world import World

Way = tuple[str, str]
"""From one machine to another."""
ITSELF = frozenset({"", "0.0.0.0", "::", "127.0.0.1", "localhost"})
"""Addresses that mean the machine that uses them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """How long bytes are under way, and how many datagrams get lost or arrive twice."""

    delay_s_min: float = 0.000_05
    delay_s_max: float = 0.001
    loss: float = 0.0
    duplication: float = 0.0


class Links:
    def __init__(self, world: World) -> None:
        self._world = world
        self._usual = Link()
        self._unusual: dict[Way, list[Link]] = {}
        self._cuts: Counter[Way] = Counter()
        self._dark: set[str] = set()
        """Machines without power."""
        self._numbers: dict[str, str] = {}
        self._names: dict[str, str] = {}

    # Names.

    def number_of(self, name: str) -> str:
        """The machine's address as a socket shows it; machines are numbered as they are first heard of."""
        number = self._numbers.get(name)
        if number is None:
            count = len(self._numbers) + 1
            number = self._numbers[name] = f"10.0.{count // 250}.{count % 250}"
            self._names[number] = name
        return number

    def resolve(self, host: str, *, asked_by: str) -> str:
        """The machine that `host` means: its name."""
        if host in ITSELF:
            return asked_by
        if host in self._numbers:
            return host
        name = self._names.get(host)
        if name is None:
            raise socket.gaierror(socket.EAI_NONAME, f"no machine is called {host}")
        return name

    # What a link is like.

    def passes(self, source: str, target: str) -> bool:
        return not self._cuts[source, target] and source not in self._dark and target not in self._dark

    def lets_in(self, source: str, target: str) -> bool:
        """Whether what has left `source` reaches `target`, whatever has become of `source` since."""
        return not self._cuts[source, target] and target not in self._dark

    def between(self, source: str, target: str) -> Link:
        unusual = self._unusual.get((source, target))
        return unusual[-1] if unusual else self._usual

    # Faults.

    def cut(self, ways: Iterable[Way]) -> None:
        for way in ways:
            self._cuts[way] += 1
            self._world.note("network", f"{way[0]} -/-> {way[1]}")

    def mend(self, ways: Iterable[Way]) -> None:
        """Take back as many cuts as were made with these ways."""
        for way in ways:
            if self._cuts[way]:
                self._cuts[way] -= 1
                if not self._cuts[way]:
                    self._world.note("network", f"{way[0]} ---> {way[1]}")

    def mend_all(self) -> None:
        self._cuts.clear()
        self._unusual.clear()
        self._world.note("network", "is whole")

    def change(self, ways: Iterable[Way], link: Link) -> None:
        for way in ways:
            self._unusual.setdefault(way, []).append(link)

    def change_back(self, ways: Iterable[Way], link: Link) -> None:
        for way in ways:
            changes = self._unusual.get(way, [])
            if link in changes:
                changes.remove(link)

    def darken(self, name: str) -> None:
        self._dark.add(name)

    def lighten(self, name: str) -> None:
        self._dark.discard(name)
