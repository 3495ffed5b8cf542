"""The servers of a session, kept up from one item to the next: a JVM needs half a minute to warm up."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from bench.jit import REST_SHARE, Compilers
from bench.servers import Kafka, Server, make_server
from bench.setting import Setting, Windows
from bench.workloads import BY_NAME

_ROUNDS_MAX = 3
_MOST_RUN = ("produce_200conn", "batches_1kb")
"""Again and again, until nothing much is compiled any more."""
_JVM_WARM_UP = (
    "produce_1conn",
    "produce_200conn",
    "batches_1kb",
    "default_100b",
    "consume_1kb",
    "e2e_1k",
    "transactions",
)
_WARM_UP_WINDOWS = Windows(seconds=3, warmup_s=0.5, data_scale=0.5)


class Fleet:
    """Starts what is asked for, paused; stops what isn't any more."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._servers: dict[str, Server] = {}
        self._started = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.servers([])

    def servers(self, systems: Sequence[str]) -> list[Server]:
        """These, and no others, in this order."""
        for system in [system for system in self._servers if system not in systems]:
            self._servers.pop(system).stop()
        for system in systems:
            if system not in self._servers:
                self._start(system)
        return [self._servers[system] for system in systems]

    def _start(self, system: str) -> None:
        server = make_server(system, self._directory / str(self._started))
        self._started += 1
        self._servers[system] = server  # before it starts, so that it is stopped whatever happens
        server.start()
        if isinstance(server, Kafka):
            _warm_up(server)
        server.pause()


def _warm_up(server: Server) -> None:
    print(f"warming up {server.name}", file=sys.stderr)
    for name in _JVM_WARM_UP:
        _run(name, server)
    for _ in range(_ROUNDS_MAX):
        compilers = Compilers(server.pids)
        for name in _MOST_RUN:
            _run(name, server)
        if compilers.share() <= REST_SHARE * len(server.pids):
            return


def _run(name: str, server: Server) -> None:
    BY_NAME[name].measure(Setting(server=server, windows=_WARM_UP_WINDOWS, spare=lambda: server))
