"""asyncio on virtual time, and processes that die."""

import asyncio
from collections.abc import Iterator

import pytest

from ottla.testing.sim_loop import SimLoop
from ottla.testing.sim_network import Network
from ottla.testing.sim_world import World


@pytest.fixture
def world() -> World:
    return World(1)


@pytest.fixture
def loop(world: World) -> Iterator[SimLoop]:
    loop = SimLoop(world, Network(world), "machine")
    yield loop
    loop.kill()
    world.run_for(0)


def test_sleeping_takes_virtual_time_only(world: World, loop: SimLoop) -> None:
    async def work() -> float:
        await asyncio.sleep(1_000_000)
        return asyncio.get_running_loop().time()

    task = loop.create_task(work())
    assert world.run_until(task.done, deadline=2_000_000)
    assert task.result() == 1_000_000


def test_callbacks_run_in_the_order_in_which_they_were_given(world: World, loop: SimLoop) -> None:
    order: list[str] = []
    loop.call_later(2, order.append, "later")
    loop.call_later(1, order.append, "sooner")
    loop.call_soon(order.append, "first")
    loop.call_soon(order.append, "second")
    loop.call_soon(order.append, "cancelled").cancel()
    world.run_for(3)

    assert order == ["first", "second", "sooner", "later"]


def test_time_does_not_pass_its_deadline(world: World, loop: SimLoop) -> None:
    loop.call_later(10, lambda: None)
    world.run_for(3)

    assert world.now == 3


def test_waits_of_asyncio_end_in_virtual_time(world: World, loop: SimLoop) -> None:
    async def work() -> None:
        await asyncio.wait_for(asyncio.Event().wait(), 30)

    task = loop.create_task(work())
    world.run_for(31)
    assert isinstance(task.exception(), TimeoutError)


def test_nothing_of_a_killed_process_runs(world: World, loop: SimLoop) -> None:
    ran: list[str] = []

    async def work() -> None:
        await asyncio.sleep(1)
        ran.append("task")

    loop.create_task(work())
    loop.call_later(1, ran.append, "timer")
    loop.call_later(0.5, loop.kill)
    world.run_for(5)

    assert ran == []
    assert world.failures == []


def test_an_exception_that_nobody_handles_is_remembered(world: World, loop: SimLoop) -> None:
    loop.call_soon(lambda: 1 // 0)
    world.run_for(1)

    assert "ZeroDivisionError" in world.failures[0]


def test_a_process_that_is_stopped_does_late_what_came_due_in_its_order(world: World, loop: SimLoop) -> None:
    order: list[tuple[str, float]] = []

    def ran(name: str) -> None:
        order.append((name, world.now))

    for name, at in (("b", 2.0), ("a", 1.0), ("c", 30.0)):
        loop.call_at(at, ran, name)
    loop.stop_running()
    world.run_for(10)
    assert order == []

    loop.go_on()
    world.run_for(30)
    assert order == [("a", 10.0), ("b", 10.0), ("c", 30.0)]


def test_a_process_can_be_killed_while_it_is_stopped(world: World, loop: SimLoop) -> None:
    ran: list[str] = []
    loop.stop_running()
    loop.call_later(1, ran.append, "timer")
    world.run_for(2)
    loop.kill()
    loop.go_on()
    world.run_for(5)

    assert ran == []
