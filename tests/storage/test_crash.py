"""An acknowledged record survives a crash at any operation of the disk, whatever the crash leaves behind.

`make crash` runs the long form: OTTLA_CRASH_RUNS=<how many times as much>.
"""

import os
from collections.abc import Iterator

import pytest

from ottla.config import Durability
from ottla.testing.disk import CrashingDisk
from ottla.testing.disk_model import EVERYTHING_WRITTEN, Keep, Survival
from ottla.types import TopicPartition

from .crash_model import (
    SECTOR_BYTES,
    CrashEverywhere,
    Expected,
    Storage,
    broker_config,
    new_log,
    violations,
)

RUNS = int(os.environ.get("OTTLA_CRASH_RUNS", "1"))
ALL_ANY = Survival(data=Keep.ANY, names=Keep.ANY, sector_bytes=SECTOR_BYTES)

Logs = dict[TopicPartition, Expected]
A, B, C = (TopicPartition(name, 0) for name in "abc")


def three_logs() -> Logs:
    return dict(new_log(name) for name in "abc")


def a_long_day(storage: Storage) -> Iterator[None]:
    """A bit of everything that a node does to its logs."""
    for _ in range(5):
        storage.append(A, producer_id=5)
        storage.append(B, size=150)
        storage.append(A)
        storage.commit()
        yield
    storage.begin_checkpoint()
    for _ in range(4):
        storage.append(A, producer_id=5)
        storage.append(B, size=150, producer_id=6)
        storage.commit()
        storage.work()
        yield
    storage.settle()
    storage.truncate(A, 3)
    storage.commit()
    storage.append(A, producer_id=5)
    storage.append(B)
    storage.commit()
    yield
    storage.delete_records(B, 5)
    storage.commit()
    storage.retain(B)
    storage.append(B, size=400)
    storage.append(A)
    storage.commit()
    yield
    storage.append(C, size=400, producer_id=8)
    storage.commit()
    storage.append(C, size=400, producer_id=8)
    storage.append(A)
    storage.commit()
    storage.begin_checkpoint()
    storage.append(B, size=500)
    storage.append(B, size=500)
    storage.commit()
    storage.settle()
    storage.delete_topic(A)
    storage.append(A, producer_id=5)
    storage.append(B)
    yield
    storage.commit()
    storage.truncate(B, 1)
    storage.commit()
    storage.begin_checkpoint()
    storage.settle()
    storage.work()
    storage.append(A)
    storage.commit()
    yield


def run_all(steps: Iterator[None]) -> None:
    for _ in steps:
        pass


# Every operation


def test_a_crash_before_any_operation_loses_nothing() -> None:
    disk, logs = CrashingDisk(seed=1), three_logs()
    crashing = CrashEverywhere(disk, logs)
    storage = Storage(disk, logs)
    run_all(a_long_day(storage))
    storage.stop()
    crashing.crash("after the clean stop")

    assert crashing.violations == []
    assert crashing.crashes > 1_500


@pytest.mark.parametrize("seed", range(2 * RUNS))
def test_a_second_crash_before_any_operation_of_the_next_run_loses_nothing(seed: int) -> None:
    disk, logs = CrashingDisk(seed=seed), three_logs()
    steps = a_long_day(Storage(disk, logs))
    for _ in range(7):
        next(steps)
    for expected in logs.values():
        expected.acknowledged += expected.waiting
    disk = disk.crash(EVERYTHING_WRITTEN if seed % 2 else ALL_ANY)
    crashing = CrashEverywhere(disk, logs, every=2)
    storage = restarted(disk, logs)
    run_all(a_long_day(storage))
    storage.stop()

    assert crashing.violations == []


def restarted(disk: CrashingDisk, logs: Logs) -> Storage:
    """A new run on what a crash left. What waited may have survived; from here on it counts as acknowledged or gone."""
    for expected in logs.values():
        expected.acknowledged += expected.waiting
        expected.waiting = []
    storage = Storage(disk, logs)
    for partition, expected in logs.items():
        log = storage.log(partition)
        expected.cut(log.end_offset)
        expected.cut_wanted = None
        expected.start_offset = expected.start_offset_wanted = log.start_offset
    return storage


@pytest.mark.parametrize("durability", [Durability.OS, Durability.INTERVAL])
def test_without_a_sync_per_commit_a_killed_process_still_loses_nothing(durability: Durability) -> None:
    """The page cache outlives the process: only a crash of the machine may cost what was not synced."""
    disk, logs, config = CrashingDisk(seed=1), three_logs(), broker_config(durability)
    crashing = CrashEverywhere(
        disk, logs, survivals=(EVERYTHING_WRITTEN,), check=lambda disk, logs: violations(disk, logs, config)
    )
    run_all(a_long_day(Storage(disk, logs, config=config)))

    assert crashing.violations == []
