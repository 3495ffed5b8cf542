"""A production node on a simulated machine, and whoever starts it again when it has died."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.errors import OttlaError
from ottla.runtime.node import Node
from ottla.testing.sim_machine import Machine

if TYPE_CHECKING:
    from ottla.config import BrokerConfig
    from ottla.storage.log_manager import LogManager
    from ottla.testing.history import History
    from ottla.testing.sim_wire import Address

RESTART_AFTER_S_MAX = 2.0


class SimulatedNode:
    def __init__(self, machine: Machine, config: BrokerConfig, history: History) -> None:
        self.machine = machine
        self.config = config
        self.history = history
        self.node: Node | None = None
        self.is_serving = False
        self.starts = 0
        self.crash_while_starting = 0.0
        """How likely that is."""
        self.down_s = 0.0
        """How long it stays down when it dies."""
        self.stays_down = False
        self._dice = machine.world.dice(f"supervisor {machine.name}")
        machine.on_death = self._died

    @property
    def address(self) -> Address:
        return self.config.address, self.config.port

    @property
    def has_failed(self) -> bool:
        """It runs, but its disk has failed it, in the background perhaps: only a restart helps."""
        logs: LogManager | None = getattr(self.node, "_logs", None)
        return self.machine.is_running and logs is not None and logs.group_commit.poisoned

    def start(self) -> None:
        if self.machine.is_running:
            return
        machine = self.machine
        loop = machine.boot()
        self.starts += 1
        machine.world.note(machine.name, "starts")
        if self.crash_while_starting and self._dice.random() < self.crash_while_starting:
            machine.crash_at_operation(self._dice.randint(1, 60), power=self._dice.random() < 0.5)
        self.node = Node(
            self.config,
            loop=loop,
            disk=machine.disk,
            clock=machine.clock,
            random=machine.random,
            workers=machine.workers,
        )
        self.node.on_broken = self._broken
        loop.create_task(self._serve(self.node))

    async def _serve(self, node: Node) -> None:
        try:
            await node.start()
        except (OttlaError, OSError) as error:
            self.machine.world.note(self.machine.name, f"can't start: {error}")
            self.machine.crash(power=False)
            return
        except Exception as bug:
            if self.node is node and self.machine.is_running:
                self.machine.world.fail(self.machine.name, "the node can't start", bug)
            return
        self.machine.world.note(self.machine.name, "serves")
        self.is_serving = True

    def _broken(self) -> None:
        """The node says that it is of no more use: its process ends, as `ottla start` does."""
        self.machine.world.note(self.machine.name, "gives up")
        if self.is_serving:
            self.restart_in_order()
        else:
            self.machine.crash(power=False)

    def restart_in_order(self) -> None:
        """A clean stop, as at an upgrade, and a start soon after."""
        loop, node = self.machine.loop, self.node
        if loop is not None and node is not None and self.is_serving:
            self.is_serving = False
            loop.create_task(self._stop(node))

    async def _stop(self, node: Node) -> None:
        self.machine.world.note(self.machine.name, "stops in order")
        try:
            await node.stop()
        except OttlaError as error:
            self.machine.world.note(self.machine.name, f"stops in disorder: {error}")
        await asyncio.sleep(0)
        self.machine.crash(power=False)

    def _died(self) -> None:
        self.is_serving = False
        if not self.stays_down:
            down_s, self.down_s = self.down_s or self._dice.uniform(0, RESTART_AFTER_S_MAX), 0.0
            self.machine.world.after(down_s, self.start)
