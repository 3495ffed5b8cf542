"""A simulated machine: a disk, a clock, dice, and the one process that runs on it.

A process dies in one of two ways. When it is killed its system lives on, so what it wrote is still there although it
was never synced; when the machine loses its power only what was synced is sure to be found again. Either may happen
between two turns of the process's loop, or in the middle of one, just before any operation on the disk.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from ottla.testing.disk import CrashingDisk, Operation
from ottla.testing.sim_clock import SimulatedClock
from ottla.testing.sim_loop import ProcessKilledError, SimLoop

if TYPE_CHECKING:
    from random import Random

    from ottla.testing.sim_network import Network
    from ottla.testing.sim_world import World

P = ParamSpec("P")
T = TypeVar("T")

QUICK_SYNC_S = 0.000_2


class SimWorkers(Executor):
    """A thread of a simulated process: a task takes the time that the disk takes, then happens at once, and then it
    takes a while again until the loop is told of it.
    """

    def __init__(self, machine: Machine, loop: SimLoop) -> None:
        self._machine = machine
        self._loop = loop
        self._free_at = 0.0
        self._tasks: list[Callable[[], None]] = []

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()

        def task() -> None:
            try:
                future.set_result(fn(*args, **kwargs))
            except Exception as error:
                future.set_exception(error)

        world = self._loop.world
        self._tasks.append(task)
        self._free_at = max(self._free_at, world.now) + self._machine.sync_s()
        world.at(self._free_at, self._run_next)
        return future

    def _run_next(self) -> None:
        if self._loop.is_stopped:
            self._loop.when_going_on(self._run_next)
        elif self._tasks and self._loop.is_alive:
            self._loop.world.who = self._machine.name
            self._loop.handover_s = self._machine.sync_s()
            try:
                self._tasks.pop(0)()
            except ProcessKilledError:
                return
            finally:
                self._loop.handover_s = 0.0

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """What was submitted is done first."""
        while self._tasks:
            self._tasks.pop(0)()


class Machine:
    def __init__(self, world: World, network: Network, name: str, *, skew_ms: int = 0) -> None:
        self.world = world
        self.network = network
        self.name = name
        network.links.number_of(name)
        self.disk = CrashingDisk(seed=world.dice(f"disk {name}").getrandbits(32))
        self.clock = SimulatedClock(world, skew_ms=skew_ms)
        self.random: Random = world.dice(f"ports {name}")
        self.slow_sync_s = 0.0
        """How long a sync takes at most while the disk is slow; 0 while it is quick."""
        self.on_death: Callable[[], None] = _nothing
        """Called when the process dies by a fault."""
        self.loop: SimLoop | None = None
        self._sync_dice = world.dice(f"sync {name}")
        self._operations_left: int | None = None
        self._loses_power = False

    @property
    def is_running(self) -> bool:
        return self.loop is not None

    def boot(self) -> SimLoop:
        """Start a process."""
        self.network.power_back(self.name)
        self._operations_left = None
        self.disk.before_operation = self._before_operation
        self.loop = SimLoop(self.world, self.network, self.name)
        return self.loop

    def workers(self, _count: int, _name: str) -> Executor:
        """The threads of the process that runs now."""
        assert self.loop is not None
        return SimWorkers(self, self.loop)

    def sync_s(self) -> float:
        return self._sync_dice.uniform(0, self.slow_sync_s or QUICK_SYNC_S)

    # Standing still.

    def freeze(self) -> None:
        if self.loop is not None and not self.loop.is_stopped:
            self.world.note(self.name, "IS FROZEN")
            self.loop.stop_running()

    def go_on(self) -> None:
        if self.loop is not None and self.loop.is_stopped:
            self.world.note(self.name, "goes on")
            self.loop.go_on()

    # Dying.

    def crash(self, *, power: bool) -> None:
        """The process is gone; with `power`, so is what was not synced."""
        loop, self.loop = self.loop, None
        if loop is None:
            return
        self.world.note(self.name, "LOSES POWER" if power else "IS KILLED")
        loop.kill()
        self.disk.before_operation = None
        if power:
            self.network.power_lost(loop)
            self.disk = self.disk.crash()
        else:
            self.network.process_died(loop)
        self.on_death()

    def crash_at_operation(self, number: int | None, *, power: bool = False) -> None:
        """The same, just before the disk's operation of that number from now on; None takes it back."""
        self._operations_left = number
        self._loses_power = power

    def _before_operation(self, operation: Operation, path: str) -> None:
        self.world.note_detail(self.name, f"disk {operation} {path}")
        if self._operations_left is None:
            return
        self._operations_left -= 1
        if self._operations_left <= 0:
            self._operations_left = None
            self.crash(power=self._loses_power)
            raise ProcessKilledError


def _nothing() -> None:
    """Nobody wants to know."""
