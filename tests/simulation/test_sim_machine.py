"""What dies with a process, and what dies with its machine."""

import pytest

from ottla.testing.disk_model import NOTHING_UNSYNCED
from ottla.testing.sim_clock import EPOCH_MS
from ottla.testing.sim_loop import ProcessKilledError
from ottla.testing.sim_machine import Machine
from ottla.testing.sim_network import Network
from ottla.testing.sim_world import World


@pytest.fixture
def machine() -> Machine:
    world = World(1)
    return Machine(world, Network(world), "machine")


def write(machine: Machine, data: bytes, *, sync: bool) -> None:
    file = machine.disk.open("file", create=True)
    file.pwritev([data], 0)
    if sync:
        file.sync()
        machine.disk.sync_directory("")


def test_what_a_killed_process_wrote_is_still_there(machine: Machine) -> None:
    machine.boot()
    write(machine, b"unsynced", sync=False)
    machine.crash(power=False)

    assert machine.disk.open("file").pread(100, 0) == b"unsynced"
    machine.world.run_for(0)


def test_what_was_synced_survives_the_loss_of_power(machine: Machine) -> None:
    machine.boot()
    write(machine, b"synced", sync=True)
    machine.crash(power=True)

    assert machine.disk.open("file").pread(100, 0) == b"synced"
    assert machine.disk.crash(NOTHING_UNSYNCED).exists("file")
    machine.world.run_for(0)


def test_a_crash_can_come_in_the_middle_of_what_a_process_does(machine: Machine) -> None:
    deaths: list[float] = []
    machine.on_death = lambda: deaths.append(machine.world.now)
    machine.boot()
    machine.crash_at_operation(2, power=False)

    with pytest.raises(ProcessKilledError):
        write(machine, b"never written", sync=True)

    assert not machine.is_running
    assert machine.disk.size("file") == 0
    assert len(deaths) == 1
    machine.world.run_for(0)


def test_work_in_a_thread_takes_as_long_as_the_disk_does(machine: Machine) -> None:
    loop = machine.boot()
    machine.slow_sync_s = 10.0
    workers = machine.workers(1, "thread")
    done: list[float] = []
    told: list[float] = []

    def work() -> None:
        done.append(loop.time())
        loop.call_soon_threadsafe(lambda: told.append(loop.time()))

    workers.submit(work)
    workers.submit(work)
    assert done == []
    machine.world.run_for(60)

    assert 0 < done[0] < done[1] < 20
    assert done[0] < told[0]
    machine.crash(power=False)
    machine.world.run_for(0)


def test_work_that_a_process_did_not_get_to_dies_with_it(machine: Machine) -> None:
    machine.boot()
    done: list[None] = []
    machine.workers(1, "thread").submit(done.append, None)
    machine.crash(power=False)
    machine.world.run_for(60)

    assert done == []


def test_work_is_done_before_the_threads_are_shut_down(machine: Machine) -> None:
    machine.boot()
    done: list[None] = []
    workers = machine.workers(1, "thread")
    workers.submit(done.append, None)
    workers.shutdown()

    assert done == [None]
    machine.crash(power=False)
    machine.world.run_for(0)


def test_the_calendar_may_jump_and_the_other_clock_does_not(machine: Machine) -> None:
    machine.world.run_for(5)
    machine.clock.set_wrong_by(-60_000)

    assert machine.clock.now_ms() == EPOCH_MS - 55_000
    assert machine.clock.monotonic_ms() == 5_000
