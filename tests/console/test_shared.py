"""One poll for all who look, and none when nobody does."""

import asyncio

from ottla.console.shared import Shared
from ottla.errors import BrokerError, ErrorCode

QUICK_S = 0.001


class Counter:
    def __init__(self) -> None:
        self.looks = 0
        self.fails = False

    async def load(self) -> int:
        self.looks += 1
        if self.fails:
            raise BrokerError(ErrorCode.LEADER_NOT_AVAILABLE)
        return self.looks


async def looked(shared: Shared[int], times: int) -> None:
    """Until so many looks were told."""
    told = asyncio.Semaphore(0)
    end = shared.subscribe(told.release)
    for _ in range(times):
        await told.acquire()
    end()


def test_two_who_look_are_one_poll() -> None:
    async def run() -> None:
        counter = Counter()
        shared = Shared(counter.load, every_s=QUICK_S)
        seen: list[int | None] = []
        end = shared.subscribe(lambda: seen.append(shared.latest))
        await looked(shared, 3)
        end()
        assert seen == list(range(1, counter.looks + 1))

    asyncio.run(run())


def test_nobody_is_asked_when_nobody_looks() -> None:
    async def run() -> None:
        counter, idle = Counter(), asyncio.Event()
        shared = Shared(counter.load, every_s=QUICK_S, on_idle=idle.set)
        assert counter.looks == 0
        await looked(shared, 2)
        assert idle.is_set()
        before = counter.looks
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        await asyncio.gather(*others, return_exceptions=True)
        assert not shared.is_watched
        assert counter.looks == before

    asyncio.run(run())


def test_who_comes_later_sees_the_last_look_at_once() -> None:
    async def run() -> None:
        shared = Shared(Counter().load, every_s=60)
        await looked(shared, 1)
        seen: list[int | None] = []
        shared.subscribe(lambda: seen.append(shared.latest))()
        assert seen == [1]

    asyncio.run(run())


def test_a_failure_is_a_sentence_and_the_last_look_stays() -> None:
    async def run() -> None:
        counter = Counter()
        shared = Shared(counter.load, every_s=QUICK_S)
        await looked(shared, 1)
        counter.fails = True
        await looked(shared, 2)
        assert shared.latest == 1
        assert shared.problem == "The partition has no leader at the moment."
        counter.fails = False
        await looked(shared, 2)
        assert shared.problem is None

    asyncio.run(run())


def test_a_listener_that_fails_does_not_keep_others_from_seeing() -> None:
    async def run() -> None:
        shared = Shared(Counter().load, every_s=QUICK_S)

        def broken() -> None:
            raise ValueError

        end = shared.subscribe(broken)
        await looked(shared, 2)
        end()

    asyncio.run(run())
