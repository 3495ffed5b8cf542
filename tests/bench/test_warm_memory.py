"""Memory that is kept for whoever is measured."""

import threading

from bench.warm_memory import WarmMemory

from tests.interop.waiting import eventually

MIB = 1 << 20
MARGIN = 256 * MIB


def resident_bytes() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096


def test_what_it_holds_is_memory_of_this_process_until_it_is_given_back() -> None:
    memory = WarmMemory(0.2)
    before = resident_bytes()

    memory.fill()

    held = memory.held_bytes
    assert 180 * MIB < held <= 200_000_000
    assert resident_bytes() - before > held * 0.9
    memory.give(held)
    assert memory.held_bytes == 0
    assert resident_bytes() - before < held * 0.1
    memory.close()


def test_it_is_filled_again_with_what_was_given_back() -> None:
    memory = WarmMemory(0.1)
    memory.fill()
    full = memory.held_bytes
    memory.give(20 * MIB)
    assert memory.held_bytes == full - 24 * MIB, "in whole chunks"

    memory.fill()

    assert memory.held_bytes == full
    memory.close()


def test_while_it_is_lent_as_much_is_given_back_as_others_take() -> None:
    taken = 0
    memory = WarmMemory(0.7, free=lambda: 2000 * MIB - memory.held_bytes - taken)
    memory.fill()
    full = memory.held_bytes

    with memory.lent():
        eventually(lambda: memory.held_bytes == full - MARGIN)
        taken += 64 * MIB
        eventually(lambda: memory.held_bytes == full - MARGIN - 64 * MIB)

    memory.close()


def test_once_it_is_no_longer_lent_it_is_kept() -> None:
    taken = 0
    memory = WarmMemory(0.7, free=lambda: 2000 * MIB - memory.held_bytes - taken)
    memory.fill()
    with memory.lent():
        pass
    left = memory.held_bytes

    taken += 500 * MIB

    assert not [thread for thread in threading.enumerate() if thread.name == "warm-memory"]
    assert memory.held_bytes == left
    memory.close()


def test_none_of_it_can_be_asked_for() -> None:
    memory = WarmMemory(0)
    memory.fill()
    with memory.lent():
        assert memory.held_bytes == 0
    memory.close()
