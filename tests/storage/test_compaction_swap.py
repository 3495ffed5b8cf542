"""Compacted segments take the place of the old ones whatever happens meanwhile: a crash before any operation of the
disk, with any of the unsynced names surviving, or somebody who cuts the log."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from ottla.errors import CorruptLogError
from ottla.storage.compaction_swap import Swap
from ottla.storage.log import Log, Origin
from ottla.storage.verify import verify_log_directory
from ottla.testing.disk import CrashingDisk, Operation
from ottla.testing.disk_model import EVERYTHING_WRITTEN, NOTHING_UNSYNCED, Keep, Survival

from .batches import DIRECTORY, NOW_MS, append, marker, open_log
from .compacting import COMPACTED, clean, compacted, go_on, keyed, pairs_of, planned, put_in_place

CONFIG: dict[str, Any] = {"cleanup_policy": COMPACTED, "segment_bytes": 1_000, "index_interval_bytes": 100}
SURVIVALS = (
    NOTHING_UNSYNCED,
    EVERYTHING_WRITTEN,
    *[Survival(data=Keep.ANY, names=Keep.ANY, sector_bytes=64)] * 4,
    Survival(data=Keep.PREFIX, names=Keep.PREFIX),
)

Rows = list[tuple[int, bytes | None, bytes | None]]


def dirty_log(disk: CrashingDisk) -> Log:
    """Several groups of several segments, one compacted before, with aborted transactions in them."""
    log = open_log(disk, **CONFIG)
    sequence = 0
    for round_number in range(3):
        for number in range(14):
            append(log, keyed((b"k%d" % (number % 5), b"%d-%d" % (round_number, number) * 12)))
            if number % 5 == 0:
                aborted = keyed((b"k1", b"no"), producer_id=3, epoch=0, sequence=sequence, transactional=True)
                append(log, aborted)
                append(log, marker(commits=False, producer_id=3), origin=Origin.COORDINATOR)
                sequence += 1
        if not round_number:
            clean(log)
    log.roll(NOW_MS)
    append(log, keyed((b"tail", b"1")))
    return log


def committed(log: Log) -> Rows:
    """What a reader of committed records gets."""
    aborted = log.aborted_transactions(log.start_offset, log.end_offset)
    ranges = [(one.first_offset, one.last_offset) for one in aborted]
    return [
        row for row in pairs_of(log) if not any(first <= row[0] <= last and row[2] == b"no" for first, last in ranges)
    ]


def newest(rows: Rows) -> dict[bytes | None, tuple[int, bytes | None]]:
    return {key: (offset, value) for offset, key, value in rows}


class CrashEverywhere:
    """Before each operation of the disk: what would be found if it crashed here."""

    def __init__(self, disk: CrashingDisk, end_offset: int, check: Callable[[CrashingDisk], None]) -> None:
        self.crashes = 0
        self._disk, self._end_offset, self._check = disk, end_offset, check
        self._is_checking = False
        disk.before_operation = self._before

    def _before(self, operation: Operation, path: str) -> None:
        if self._is_checking:
            return
        self._is_checking = True
        for survival in SURVIVALS:
            self.crashes += 1
            self._check(self._disk.crash(survival))
        self._is_checking = False


def recovered(disk: CrashingDisk, recovery_point: int) -> Log:
    return open_log(disk, clean=False, recovery_point=recovery_point, **CONFIG)


def test_a_crash_before_any_operation_leaves_the_old_log_or_the_new_one() -> None:
    disk = CrashingDisk(seed=3)
    log = dirty_log(disk)
    found = planned(log)
    assert found is not None
    before, expected = committed(log), newest(committed(log))
    end_offset = log.end_offset
    seen: set[int] = set()

    def check(survivor: CrashingDisk) -> None:
        again = recovered(survivor, end_offset)
        rows = committed(again)
        assert newest(rows) == expected
        assert set(rows) <= set(before)
        assert again.end_offset == end_offset
        assert again.report.bytes_cut == 0
        again.close()
        assert verify_log_directory(survivor, DIRECTORY).problems == ()
        assert not [name for name in survivor.list(DIRECTORY) if name.endswith((".swap", ".cleaned", ".deleted"))]
        seen.add(len(rows))

    crashing = CrashEverywhere(disk, end_offset, check)
    swap, _ = compacted(log, found)
    put_in_place(swap)
    disk.before_operation = None

    assert crashing.crashes > 250
    assert newest(committed(log)) == expected
    assert len(seen) >= 2, "neither the old log nor the new one was ever found"


def test_a_second_crash_while_the_first_is_mended_changes_nothing() -> None:
    disk = CrashingDisk(seed=4)
    log = dirty_log(disk)
    found = planned(log)
    assert found is not None
    expected, end_offset = newest(committed(log)), log.end_offset
    swap, _ = compacted(log, found)
    assert swap.begin()
    crashed = []
    while swap.step():
        crashed += [disk.crash(survival) for survival in SURVIVALS]
        if swap.needs_sync:
            swap.sync()
    checked = 0
    for first in crashed:
        survivors: list[CrashingDisk] = []

        def crash(
            operation: Operation, path: str, disk: CrashingDisk = first, into: list[CrashingDisk] = survivors
        ) -> None:
            into.append(disk.crash(SURVIVALS[len(into) % len(SURVIVALS)]))

        first.before_operation = crash
        recovered(first, end_offset)
        first.before_operation = None
        for survivor in survivors:
            assert newest(committed(recovered(survivor, end_offset))) == expected
            checked += 1
    assert checked > 200


@pytest.fixture
def one_segment_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.storage.compaction_swap._SEGMENTS_PER_SLICE", 1)


def test_names_change_a_few_at_a_time_and_are_synced_after_each_step(one_segment_at_a_time: None) -> None:
    disk = CrashingDisk(seed=5)
    log = dirty_log(disk)
    found = planned(log)
    assert found is not None
    swap, done = compacted(log, found)
    assert swap.begin()
    renames, needed = [], []
    count = [0]
    disk.before_operation = lambda operation, _path: count.__setitem__(0, count[0] + (operation is Operation.RENAME))

    while swap.step():
        needed.append(swap.needs_sync)
        renames.append(count[0])
        count[0] = 0
        if swap.needs_sync:
            swap.sync()

    assert sum(needed) == 5
    assert max(renames) <= 4
    assert len(needed) == 4 * len(done.groups) + sum(len(group.bases) for group in done.groups) + 5


@pytest.mark.parametrize("steps", range(0, 36, 3))
@pytest.mark.parametrize("cut_at", [7, 60])
def test_a_log_that_is_cut_within_a_step_is_what_it_would_be(
    steps: int, cut_at: int, one_segment_at_a_time: None
) -> None:
    test_a_log_that_is_cut_at_any_step_is_what_it_would_be(steps, cut_at)


@pytest.mark.parametrize("steps", range(6))
@pytest.mark.parametrize("cut_at", [0, 7, 25, 60])
def test_a_log_that_is_cut_at_any_step_is_what_it_would_be(steps: int, cut_at: int) -> None:
    disk = CrashingDisk(seed=5)
    log = dirty_log(disk)
    found = planned(log)
    assert found is not None
    before = committed(log)
    swap, _ = compacted(log, found)
    assert swap.begin()
    for _ in range(steps):
        go_on(swap)

    end = log.truncate_to(cut_at)

    assert end <= cut_at
    rows = committed(log)
    assert set(rows) <= {row for row in before if row[0] < cut_at}
    assert not swap.step()
    log.close()
    assert verify_log_directory(disk, DIRECTORY).problems == ()
    assert committed(recovered(disk.crash(NOTHING_UNSYNCED), min(end, log.recovery_point))) == rows


def test_a_log_that_was_cut_meanwhile_keeps_what_it_is() -> None:
    disk = CrashingDisk(seed=6)
    log = dirty_log(disk)
    found = planned(log)
    assert found is not None
    swap, _ = compacted(log, found)
    log.truncate_to(20)
    append(log, keyed((b"new", b"1")))
    before = pairs_of(log)

    assert not swap.begin()

    assert pairs_of(log) == before
    assert not [name for name in disk.list(DIRECTORY) if name.endswith((".swap", ".cleaned"))]


def test_readers_see_every_record_at_every_step(one_segment_at_a_time: None) -> None:
    disk = CrashingDisk(seed=7)
    log = dirty_log(disk)
    found = planned(log)
    assert found is not None
    expected = newest(committed(log))
    swap, _ = compacted(log, found)
    assert swap.begin()
    while swap.step():
        for segment in log.segments:
            segment.close()  # as if the descriptors had been needed elsewhere
        assert newest(committed(log)) == expected
        if swap.needs_sync:
            swap.sync()
    assert not Swap.step(swap)


def test_a_swap_file_that_is_damaged_is_not_taken_for_the_log() -> None:
    disk = CrashingDisk(seed=8)
    log = dirty_log(disk)
    found = planned(log)
    assert found is not None
    swap, _ = compacted(log, found)
    assert swap.begin()
    while not (found_names := [name for name in disk.list(DIRECTORY) if name.endswith(".log.swap")]):
        go_on(swap)
    name = found_names[0]
    disk.open(f"{DIRECTORY}/{name}").pwritev([Random(1).randbytes(40)], 0)

    with pytest.raises(CorruptLogError, match="damaged"):
        recovered(disk, log.recovery_point)


def test_files_of_the_last_compaction_are_removed_while_the_next_one_is_read() -> None:
    log = dirty_log(CrashingDisk(seed=9))
    found = planned(log)
    assert found is not None
    first, _ = compacted(log, found)
    assert first.begin()
    while go_on(first):
        pass
    append(log, keyed((b"k1", b"new")))
    log.roll(NOW_MS)
    found = planned(log)
    assert found is not None
    expected = newest(committed(log))
    second, _ = compacted(log, found)
    assert second.begin()
    while not second.deleted:
        go_on(second)

    for deleted in first.deleted:
        deleted.remove()

    for segment in log.segments:
        segment.close()
    assert newest(committed(log)) == expected
