"""An acknowledged record survives a crash at any operation of the disk, whatever the crash leaves behind.

`make crash` runs the long form: OTTLA_CRASH_RUNS=<how many times as much>.
"""

import os
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.config import Durability
from ottla.errors import BrokerError, DiskFailedError
from ottla.storage.group_commit import Commit
from ottla.storage.journal import JournalFile, file_path
from ottla.storage.journal_reader import LoggedEntry
from ottla.storage.log import Log
from ottla.storage.log_manager import LogManager
from ottla.storage.pending import Syncable
from ottla.storage.recovery import LogRecovery
from ottla.testing.disk import CrashingDisk, Fault, Operation
from ottla.testing.disk_model import EVERYTHING_WRITTEN, NOTHING_UNSYNCED, Keep, Survival
from ottla.types import TopicPartition

from .crash_model import (
    SECTOR_BYTES,
    CrashEverywhere,
    Expected,
    Storage,
    broker_config,
    contents,
    new_log,
    violations,
)

RUNS = int(os.environ.get("OTTLA_CRASH_RUNS", "1"))
pytestmark = [pytest.mark.timeout(300 * RUNS), pytest.mark.usefixtures("bounds_that_are_met")]
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


@pytest.mark.parametrize(("holds", "crashes_min"), [(False, 1_500), (True, 1_200)])
def test_a_crash_before_any_operation_loses_nothing(holds: bool, crashes_min: int) -> None:
    disk, logs = CrashingDisk(seed=1), three_logs()
    crashing = CrashEverywhere(disk, logs)
    storage = Storage(disk, logs, holds=holds)
    run_all(a_long_day(storage))
    storage.stop()
    crashing.crash("after the clean stop")

    assert crashing.violations == []
    assert crashing.crashes > crashes_min


@pytest.mark.parametrize("seed", range(2 * RUNS))
def test_a_second_crash_before_any_operation_of_the_next_run_loses_nothing(seed: int) -> None:
    disk, logs = CrashingDisk(seed=seed), three_logs()
    steps = a_long_day(Storage(disk, logs, holds=seed % 2 == 0))
    for _ in range(7):
        next(steps)
    disk = disk.crash(EVERYTHING_WRITTEN if seed % 2 else ALL_ANY)
    crashing = CrashEverywhere(disk, logs, every=2)
    storage = restarted(disk, logs)
    run_all(a_long_day(storage))
    storage.stop()

    assert crashing.violations == []


def restarted(disk: CrashingDisk, logs: Logs) -> Storage:
    """A new run on what a crash left. What waited may have survived; from here on it counts as acknowledged or gone."""
    storage = Storage(disk, logs, holds=True)
    for partition, expected in logs.items():
        log = storage.log(partition)
        expected.acknowledged += expected.waiting
        expected.waiting = []
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


@pytest.mark.parametrize("durability", [Durability.OS, Durability.INTERVAL])
def test_without_a_sync_per_commit_a_crash_costs_the_end_of_logs_and_nothing_else(durability: Durability) -> None:
    disk, logs, config = CrashingDisk(seed=2), three_logs(), broker_config(durability)
    synced: dict[TopicPartition, int] = dict.fromkeys(logs, 0)

    def check(disk: CrashingDisk, logs: Logs) -> list[str]:
        storage = Storage(disk, logs, config=config)
        return [
            f"{partition}: {len(found)} of {len(sent)} batches, of which {synced[partition]} were synced"
            for partition, expected in logs.items()
            for found in [contents(storage.log(partition))]
            for sent in [[one.stored for one in (*expected.acknowledged, *expected.waiting)]]
            if found != sent[: len(found)] or len(found) < synced[partition]
        ]

    crashing = CrashEverywhere(disk, logs, check=check)
    storage = Storage(disk, logs, config=config)
    for number in range(12):
        for partition in logs:
            storage.append(partition, size=30 * (number % 5 + 1), producer_id=5)
        storage.commit()
        if number % 4 == 3:
            storage.begin_checkpoint()
            storage.settle()
            synced |= {partition: len(expected.acknowledged) for partition, expected in logs.items()}

    assert crashing.violations == []


# Recovery itself


def crashed_in_the_middle_of_things(seed: int) -> tuple[CrashingDisk, Logs]:
    disk, logs = CrashingDisk(seed=seed), three_logs()
    steps = a_long_day(Storage(disk, logs, holds=seed % 2 == 1))
    for _ in range(9 + seed % 4):
        next(steps)
    return disk.crash(ALL_ANY), logs


@pytest.mark.parametrize("seed", range(3 * RUNS))
def test_a_crash_before_any_operation_of_recovery_loses_nothing(seed: int) -> None:
    disk, logs = crashed_in_the_middle_of_things(seed)
    crashing = CrashEverywhere(disk, logs)
    found = violations(disk, logs)

    assert found == []
    assert crashing.violations == []
    assert crashing.crashes > 50


@pytest.mark.parametrize("seed", range(4 * RUNS))
def test_recovering_again_gives_the_same(seed: int) -> None:
    disk, logs = crashed_in_the_middle_of_things(seed)
    first = Storage(disk, logs)
    before = {partition: contents(first.log(partition)) for partition in logs}
    for survival in (NOTHING_UNSYNCED, EVERYTHING_WRITTEN, ALL_ANY):
        again = Storage(disk.crash(survival), logs)

        assert {partition: contents(again.log(partition)) for partition in logs} == before
        assert again.logs.report.bytes_replayed == 0


# Any schedule

partitions = st.sampled_from([A, B, C])
operations = st.one_of(
    st.tuples(st.just("append"), partitions, st.sampled_from([10, 30, 150, 420]), st.sampled_from([-1, -1, 5, 6])),
    st.tuples(st.just("commit")),
    st.tuples(st.just("commit")),
    st.tuples(st.just("work")),
    st.tuples(st.just("begin_checkpoint")),
    st.tuples(st.just("truncate"), partitions, st.integers(0, 4)),
    st.tuples(st.just("delete_records"), partitions, st.integers(1, 9)),
    st.tuples(st.just("retain"), partitions),
    st.tuples(st.just("delete_topic"), partitions),
    st.tuples(st.just("restart")),
    st.tuples(st.just("crash"), st.sampled_from([NOTHING_UNSYNCED, EVERYTHING_WRITTEN, ALL_ANY])),
)


@settings(
    max_examples=15 * RUNS,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)
@given(
    schedule=st.lists(operations, min_size=10, max_size=80),
    seed=st.integers(0, 2**16),
    every=st.integers(5, 15),
    holds=st.booleans(),
)
def test_no_schedule_and_no_crash_loses_anything(
    schedule: list[tuple[object, ...]], seed: int, every: int, holds: bool
) -> None:
    disk, logs = CrashingDisk(seed=seed), three_logs()
    crashing = CrashEverywhere(disk, logs, every=every)
    storage = Storage(disk, logs, holds=holds)
    for name, *arguments in schedule:
        if name == "append":
            partition, size, producer_id = arguments
            storage.append(partition, size=size, producer_id=producer_id)  # type: ignore[arg-type]  # drawn as such
        elif name in ("restart", "crash"):
            if name == "restart":
                storage.stop()
            disk = disk.crash(arguments[0] if arguments else NOTHING_UNSYNCED)  # type: ignore[arg-type]  # drawn as such
            crashing.follow(disk)
            storage = restarted(disk, logs)
        else:
            getattr(storage, str(name))(*arguments)
    crashing.crash("at the end")

    assert crashing.violations == []


# Damage


def damaged_day(seed: int = 3, *, holds: bool = False) -> tuple[CrashingDisk, Logs, Storage]:
    """Six commits in the journal, none of them checkpointed."""
    disk, logs = CrashingDisk(seed=seed), three_logs()
    storage = Storage(disk, logs, holds=holds)
    for _ in range(6):
        storage.append(A)
        storage.append(B, size=150)
        storage.commit()
    return disk, logs, storage


def test_a_damaged_journal_entry_costs_nothing_while_the_segments_are_whole() -> None:
    disk, logs, _ = damaged_day()
    for bit in range(8 * 1_300, 8 * 3_000, 8 * 53):
        after = disk.crash(EVERYTHING_WRITTEN)
        after.flip_bit(file_path(0), bit)

        storage = Storage(after, logs)

        assert [problem for one in logs.values() for problem in _differences(storage, one)] == []


def _differences(storage: Storage, expected: Expected) -> list[str]:
    found = contents(storage.log(expected.partition))
    return [] if found == [sent.stored for sent in expected.acknowledged] else [f"{expected.partition} differs"]


SECOND_BLOCK = 512 + 1_024
"""Blocks of this day are two sectors long."""
DAMAGED = [SECOND_BLOCK + 5, SECOND_BLOCK + 60, SECOND_BLOCK + 180]
"""In the block's header, in that of its first entry, and in a record."""


@pytest.mark.parametrize("byte", DAMAGED)
def test_damage_to_the_journal_is_reported(byte: int) -> None:
    disk, logs, _ = damaged_day()
    after = disk.crash(EVERYTHING_WRITTEN)
    after.flip_bit(file_path(0), 8 * byte)

    assert any("journal" in sentence for sentence in Storage(after, logs).logs.report.problems)


@pytest.mark.parametrize("byte", DAMAGED)
def test_damage_to_the_journal_with_the_segments_lost_costs_what_was_damaged_and_no_more(byte: int) -> None:
    disk, logs, _ = damaged_day()
    after = disk.crash(NOTHING_UNSYNCED)
    after.flip_bit(file_path(0), 8 * byte)

    storage = Storage(after, logs)

    lost = [sentence for sentence in storage.logs.report.problems if "are lost" in sentence]
    assert len(lost) >= 1
    for expected in logs.values():
        stored = [sent.stored for sent in expected.acknowledged]
        found = contents(storage.log(expected.partition))
        assert len(found) >= len(stored) - 1
        assert [batch for batch in stored if batch in found] == found


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_a_lost_index_is_made_again(suffix: str) -> None:
    disk, logs, storage = damaged_day()
    storage.stop()
    lost = [name for name in disk.list("b-0") if name.endswith(suffix)]
    assert lost
    for name in lost:
        disk.remove(f"b-0/{name}")

    assert violations(disk.crash(EVERYTHING_WRITTEN), logs) == []


def test_a_flipped_bit_in_a_segment_is_repaired_from_the_journal() -> None:
    disk, logs, _ = damaged_day()
    size = disk.size("b-0/00000000000000000000.log")
    for bit in range(5, 8 * size, 8 * 97):
        after = disk.crash(EVERYTHING_WRITTEN)
        after.flip_bit("b-0/00000000000000000000.log", bit)

        assert violations(after, logs) == []


# A disk that fails


def test_what_a_failed_sync_covered_is_never_acknowledged_and_nothing_is_after_it() -> None:
    disk, logs, storage = damaged_day()
    disk.faults.append(Fault(operation=Operation.SYNC, path_contains="journal", times=1))
    storage.append(A)
    with pytest.raises(DiskFailedError, match="sync the journal"):
        storage.commit()
    storage.append(A)
    with pytest.raises(DiskFailedError, match="sync the journal"):
        storage.commit()
    with pytest.raises(DiskFailedError):
        storage.logs.close()

    assert logs[A].waiting
    assert violations(disk.crash(NOTHING_UNSYNCED), logs) == []


@pytest.mark.parametrize("path", ["journal", "a-0", "b-0"])
@pytest.mark.parametrize("operation", [Operation.WRITE, Operation.SYNC])
@pytest.mark.parametrize("skip", range(3))
@pytest.mark.parametrize("holds", [False, True])
def test_an_error_anywhere_acknowledges_nothing_that_can_be_lost(
    path: str, operation: Operation, skip: int, holds: bool
) -> None:
    disk, logs, storage = damaged_day(holds=holds)
    disk.faults.append(Fault(operation=operation, path_contains=path, skip=skip))

    def go_on() -> None:
        for _ in range(8):
            storage.append(A)
            storage.append(B, size=400)
            storage.commit()
            storage.begin_checkpoint()
            storage.settle()

    with pytest.raises((DiskFailedError, BrokerError)) as refusal:
        go_on()

    assert storage.logs.group_commit.poisoned or isinstance(refusal.value, BrokerError)
    for survival in (NOTHING_UNSYNCED, EVERYTHING_WRITTEN, ALL_ANY):
        assert violations(disk.crash(survival), logs) == []


@pytest.mark.parametrize("room_bytes", range(0, 1_200, 60))
@pytest.mark.parametrize("holds", [False, True])
def test_a_full_disk_refuses_and_works_again_when_there_is_room(room_bytes: int, holds: bool) -> None:
    disk, logs, storage = damaged_day(holds=holds)
    disk.capacity_bytes = _used_bytes(disk) + room_bytes
    refused = 0
    for _ in range(8):
        try:
            storage.append(A)
            storage.append(B, size=150)
            storage.commit()
        except BrokerError:  # no room for a new segment's index
            refused += 1
        except DiskFailedError:
            refused += 1
        assert violations(with_room(disk.crash(ALL_ANY)), logs) == []
    assert refused
    assert not storage.logs.group_commit.poisoned

    disk.capacity_bytes = None
    storage.append(A)
    storage.append(B)
    storage.commit()

    assert not logs[A].waiting
    for survival in (NOTHING_UNSYNCED, EVERYTHING_WRITTEN, ALL_ANY):
        assert violations(disk.crash(survival), logs) == []


def with_room(disk: CrashingDisk) -> CrashingDisk:
    """Recovery needs some: whoever starts a node on a full disk must free it first."""
    disk.capacity_bytes = None
    return disk


def _used_bytes(disk: CrashingDisk) -> int:
    disk.capacity_bytes = 1 << 40
    return (1 << 40) - disk.free_bytes()


# That these checks can fail


def no_sync(journal_file: JournalFile) -> None:
    """A journal that is written and not synced."""


def no_names(disk: CrashingDisk, path: str) -> None:
    """Directories that are never synced."""


def only_segments(commit: Commit) -> None:
    """Acknowledged before the journal has it."""
    for write in commit.shares:
        write.run()


def nothing_dirty(log: Log) -> list[Syncable]:
    """A checkpoint that syncs no log."""
    return []


def truncate_at_once(manager: LogManager, log: Log, offset: int, then: Callable[[], None]) -> None:
    """A truncation of which the journal knows nothing."""
    log.truncate_to(offset)
    then()


def no_replay(recovery: LogRecovery, entry: LoggedEntry, upto: int) -> None:
    """A recovery that reads the journal and does nothing with it."""


def forget_at_once(manager: LogManager) -> None:
    """A journal that is used again before the segments are synced."""
    journal = manager.group_commit.journal
    journal.release(journal.next_sequence)


def believe_any_directory(manager: LogManager, *partition: object, is_needed: bool = False) -> None:
    """Nobody looks whose a directory is."""


@pytest.mark.parametrize(
    ("owner", "name", "bug"),
    [
        pytest.param(JournalFile, "sync", no_sync, marks=pytest.mark.pure),
        (CrashingDisk, "sync_directory", no_names),
        (Commit, "run", only_segments),
        (Log, "take_dirty_files", nothing_dirty),
        (LogManager, "truncate", truncate_at_once),
        (LogManager, "checkpoint", forget_at_once),
        (LogRecovery, "_replay", no_replay),
        (LogManager, "_admit", believe_any_directory),
    ],
    ids=lambda value: getattr(value, "__doc__", "") if callable(value) and not isinstance(value, type) else "",
)
def test_a_planted_bug_is_found(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, bug: object) -> None:
    disk, logs = CrashingDisk(seed=1), three_logs()
    crashing = CrashEverywhere(disk, logs, every=2)
    storage = Storage(disk, logs)
    monkeypatch.setattr(owner, name, bug)
    run_all(a_long_day(storage))

    assert crashing.violations


def test_a_disk_that_lies_about_its_syncs_is_found_out() -> None:
    disk, logs = CrashingDisk(seed=1, sync_lies=True), three_logs()
    crashing = CrashEverywhere(disk, logs, every=5)
    run_all(a_long_day(Storage(disk, logs)))

    assert any("were acknowledged" in violation for violation in crashing.violations)
