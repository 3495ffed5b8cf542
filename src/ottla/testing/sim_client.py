"""A simulated client process: a loop on a machine of its own, a view of the cluster, and what it has to do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from ottla.testing.sim_clock import EPOCH_MS
from ottla.testing.sim_loop import SimLoop
from ottla.testing.sim_view import ClusterView
from ottla.testing.sim_wire import Address

if TYPE_CHECKING:
    from ottla.testing.history import History
    from ottla.testing.sim_network import Network
    from ottla.testing.sim_world import World


class SimClient:
    def __init__(
        self,
        world: World,
        network: Network,
        name: str,
        *,
        bootstrap: Sequence[Address],
        history: History,
        pace_s: float = 0.2,
    ) -> None:
        self.world = world
        self.name = name
        self.history = history
        self.dice = world.dice(f"client {name}")
        self.pace_s = pace_s
        """The longest rest between two requests."""
        self.is_stopping = False
        self.loop = SimLoop(world, network, name)
        self.cluster = ClusterView(self.loop, bootstrap, client_id=name, dice=self.dice, history=history)
        self._network = network
        self._work: list[asyncio.Task[None]] = []

    def now(self) -> float:
        return self.world.now

    def now_ms(self) -> int:
        return EPOCH_MS + int(self.world.now * 1000)

    def start(self, *jobs: Callable[[], Awaitable[None]]) -> None:
        async def run(job: Callable[[], Awaitable[None]]) -> None:
            await job()

        self._work += [self.loop.create_task(run(job)) for job in jobs]

    def stop(self) -> None:
        """Finish what was begun."""
        self.is_stopping = True

    @property
    def is_done(self) -> bool:
        """All is finished, or failed: a job that raised is a bug in the client, and says so."""
        for task in self._work:
            if task.done() and not task.cancelled() and task.exception() is not None:
                raise AssertionError(f"{self.name} failed") from task.exception()
        return not self.loop.is_alive or all(task.done() for task in self._work)

    def kill(self) -> None:
        if self.loop.is_alive:
            self.world.note(self.name, "IS KILLED")
            self.loop.kill()
            self._network.process_died(self.loop)
