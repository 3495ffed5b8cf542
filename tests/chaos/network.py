"""A network of its own for every node: network namespaces on a bridge, whose links are cut in one direction or both.

Needs root and the `ip` command; clients are outside, on the bridge, and can always reach every node that is not cut off
from them.
"""

import os
import subprocess
from collections.abc import Iterable
from typing import Self

from tests.programs import find, missing


def why_not() -> str | None:
    """What keeps this machine from having one; None if nothing does."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if find("ip") is None:
        return missing("ip")
    name = f"otl-try-{os.getpid()}"
    tried = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        return f"network namespaces can't be made here: {tried.stderr.strip()}"
    _ip("netns", "del", name)
    return None


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


class Network:
    """Nodes 1 to `nodes`, each at `host(node)`, entered by `prefix(node)`."""

    def __init__(self, nodes: int) -> None:
        self._nodes = range(1, nodes + 1)
        self._tag = f"{os.getpid() % 100_000}"
        self._subnet = f"10.{100 + os.getpid() % 100}.{os.getpid() // 100 % 250}"
        self._cuts: set[tuple[int, int]] = set()

    def host(self, node: int) -> str:
        return f"{self._subnet}.{node}"

    def prefix(self, node: int) -> list[str]:
        return ["ip", "netns", "exec", self._space(node)]

    def _space(self, node: int) -> str:
        return f"otl-{self._tag}-{node}"

    @property
    def _bridge(self) -> str:
        return f"otl{self._tag}"

    def __enter__(self) -> Self:
        try:
            _ip("link", "add", self._bridge, "type", "bridge")
            _ip("addr", "add", f"{self._subnet}.254/24", "dev", self._bridge)
            _ip("link", "set", self._bridge, "up")
            for node in self._nodes:
                self._add(node)
        except BaseException:
            self.close()
            raise
        return self

    def _add(self, node: int) -> None:
        space, outer, inner = self._space(node), f"o{self._tag}-{node}", f"i{self._tag}-{node}"
        _ip("netns", "add", space)
        _ip("link", "add", outer, "type", "veth", "peer", "name", inner)
        _ip("link", "set", inner, "netns", space)
        _ip("link", "set", outer, "master", self._bridge, "up")
        self._in(node, "addr", "add", f"{self.host(node)}/24", "dev", inner)
        self._in(node, "link", "set", inner, "up")
        self._in(node, "link", "set", "lo", "up")

    def _in(self, node: int, *arguments: str) -> None:
        _ip("-n", self._space(node), *arguments)

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for node in self._nodes:
            subprocess.run(["ip", "netns", "del", self._space(node)], capture_output=True, check=False)
        subprocess.run(["ip", "link", "del", self._bridge], capture_output=True, check=False)

    # Cuts

    def cut(self, sender: int, receiver: int) -> None:
        """What the one sends no longer reaches the other."""
        if (sender, receiver) not in self._cuts:
            self._in(sender, "route", "add", "blackhole", f"{self.host(receiver)}/32")
            self._cuts.add((sender, receiver))

    def heal(self) -> None:
        for sender, receiver in self._cuts:
            self._in(sender, "route", "del", "blackhole", f"{self.host(receiver)}/32")
        self._cuts.clear()

    def isolate(self, node: int, *, sends: bool = True, receives: bool = True) -> None:
        """Cut a node off from the other nodes: what it sends, what it would receive, or both."""
        for other in self._others(node):
            if sends:
                self.cut(node, other)
            if receives:
                self.cut(other, node)

    def _others(self, node: int) -> Iterable[int]:
        return (other for other in self._nodes if other != node)
