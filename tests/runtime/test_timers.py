import asyncio

import uvloop

from ottla.runtime.timers import Timers


def test_actions_run_in_the_order_of_their_deadlines() -> None:
    async def scenario() -> list[str]:
        loop = asyncio.get_running_loop()
        timers, seen, last = Timers(loop), [], asyncio.Event()
        timers.after_ms(20, lambda: seen.append("late"))
        timers.after_ms(21, last.set)
        timers.after_ms(1, lambda: seen.append("early"))
        timers.after_ms(10, lambda: seen.append("middle"))
        await asyncio.wait_for(last.wait(), 5)
        return seen

    assert asyncio.run(scenario()) == ["early", "middle", "late"]


def test_a_cancelled_deadline_does_nothing_and_does_not_hold_back_others() -> None:
    async def scenario() -> list[str]:
        loop = asyncio.get_running_loop()
        timers, seen, last = Timers(loop), [], asyncio.Event()
        timers.after_ms(1, lambda: seen.append("cancelled")).cancel()
        timers.after_ms(5, lambda: seen.append("kept"))
        timers.after_ms(6, last.set)
        await asyncio.wait_for(last.wait(), 5)
        return seen

    assert asyncio.run(scenario()) == ["kept"]


def test_an_action_may_set_further_deadlines() -> None:
    async def scenario() -> list[int]:
        loop = asyncio.get_running_loop()
        timers, seen, last = Timers(loop), [], asyncio.Event()

        def step(left: int) -> None:
            seen.append(left)
            if left:
                timers.after_ms(0, lambda: step(left - 1))
            else:
                last.set()

        timers.after_ms(0, lambda: step(3))
        await asyncio.wait_for(last.wait(), 5)
        return seen

    assert asyncio.run(scenario()) == [3, 2, 1, 0]


def test_nothing_runs_after_close() -> None:
    async def scenario() -> list[str]:
        loop = asyncio.get_running_loop()
        timers, seen, later = Timers(loop), [], asyncio.Event()
        timers.after_ms(0, lambda: seen.append("should not"))
        timers.close()
        loop.call_later(0.02, later.set)
        await later.wait()
        return seen

    assert asyncio.run(scenario()) == []


def test_a_deadline_costs_one_turn_of_the_loop() -> None:
    async def scenario() -> int:
        loop = asyncio.get_running_loop()
        timers = Timers(loop)
        fired = 0
        original = timers._fire

        def count() -> None:
            nonlocal fired
            fired += 1
            original()

        timers._fire = count  # type: ignore[method-assign]
        for _ in range(20):
            done = asyncio.Event()
            timers.after_ms(3, done.set)
            await done.wait()
        return fired

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(scenario()) == 20


def test_an_action_that_sets_itself_again_at_once_lets_others_have_their_turn() -> None:
    async def scenario() -> int:
        timers = Timers(asyncio.get_running_loop())
        turns = 0

        def again() -> None:
            nonlocal turns
            turns += 1
            timers.after_ms(0, again)

        again()
        await asyncio.sleep(0.01)
        timers.close()
        return turns

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(asyncio.wait_for(scenario(), 5)) > 1
