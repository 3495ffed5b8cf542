"""What a node's thread knows of how full the processors are."""

import sys
import threading
import time

import pytest

from ottla.runtime.crowding import Crowding, Waits, own_waits

LET_IN = 200
"""How often a thread is, from one look to the next."""


class Counters:
    """The system's, as far as they concern one thread."""

    def __init__(self) -> None:
        self.waited_ns = self.times = self.looks = 0
        self.are_told = True

    def __call__(self) -> Waits | None:
        self.looks += 1
        return (self.waited_ns, self.times) if self.are_told else None

    def wait(self, mean_us: float, times: int = LET_IN) -> None:
        self.times += times
        self.waited_ns += round(mean_us * times * 1_000)


def after(crowding: Crowding, counters: Counters, mean_us: float, times: int = LET_IN) -> bool:
    """As many commits as there are from look to look, while each time that the thread was let in took so long."""
    counters.wait(mean_us, times)
    for _ in range(Crowding.LOOK_EVERY):
        crowding.committed()
    return crowding.is_full


def test_the_processors_are_full_while_the_thread_waits_for_long_each_time() -> None:
    counters = Counters()
    crowding = Crowding(counters)
    assert not after(crowding, counters, 1_000), "what was before the first look is nothing to go by"
    assert not after(crowding, counters, 24)
    assert not after(crowding, counters, 49)
    assert after(crowding, counters, 51)
    assert after(crowding, counters, 31), "it sleeps less often then, and waits less"
    assert not after(crowding, counters, 29)
    assert not after(crowding, counters, 49)


def test_a_thread_that_never_slept_did_not_wait() -> None:
    counters = Counters()
    crowding = Crowding(counters)
    after(crowding, counters, 0)
    assert not after(crowding, counters, 0, times=0)


def test_a_system_that_tells_nothing_is_not_full() -> None:
    counters = Counters()
    crowding = Crowding(counters)
    after(crowding, counters, 0)
    assert after(crowding, counters, 100)
    counters.are_told = False
    assert not after(crowding, counters, 100)
    counters.are_told = True
    assert not after(crowding, counters, 100), "nobody knows since when"
    assert after(crowding, counters, 100)


def test_it_looks_seldom() -> None:
    counters = Counters()
    crowding = Crowding(counters)
    for _ in range(10 * Crowding.LOOK_EVERY):
        crowding.committed()
    assert counters.looks == 10


@pytest.mark.skipif(sys.platform != "linux", reason="told by Linux")
def test_the_system_tells_of_the_thread_that_asks() -> None:
    told: list[Waits | None] = []

    def sleep() -> None:
        told.append(own_waits())
        for _ in range(20):
            time.sleep(0.0001)
        told.append(own_waits())

    thread = threading.Thread(target=sleep)
    thread.start()
    thread.join()

    before, afterwards = told
    assert before is not None
    assert afterwards is not None
    assert before[1] < 20 <= afterwards[1] - before[1]
    assert afterwards[0] >= before[0]
