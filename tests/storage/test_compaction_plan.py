"""Which part of a log may be compacted, and when that pays."""

from typing import Any

from ottla.config import CleanerConfig
from ottla.storage.compaction_plan import plan, task_of
from ottla.storage.log import Log
from ottla.testing.disk import CrashingDisk

from .batches import NOW_MS, append, open_log
from .compacting import COMPACTED, DAY_MS, clean, keyed, planned

ROWS = 20


def log_of_segments(count: int, *, step_ms: int = 0, **config: Any) -> Log:
    """Each closed segment holds `ROWS` records of one batch each."""
    log = open_log(CrashingDisk(seed=1), **({"cleanup_policy": COMPACTED} | config))
    for number in range(count):
        for row in range(ROWS):
            append(log, keyed((b"k%d" % row, b"v"), timestamp_ms=NOW_MS + number * step_ms))
        log.roll(NOW_MS + number * step_ms)
    return log


def end_of(log: Log, **options: Any) -> int:
    found = planned(log, **options)
    return 0 if found is None else found.end_offset


def test_all_closed_segments_and_never_the_last() -> None:
    log = log_of_segments(3)
    append(log, keyed((b"k0", b"v")))

    assert end_of(log) == 3 * ROWS
    assert end_of(log_of_segments(0)) == 0


def test_nothing_of_a_topic_that_only_deletes() -> None:
    assert end_of(log_of_segments(3, cleanup_policy=frozenset({"delete"}))) == 0


def test_only_what_is_below_the_high_watermark() -> None:
    log = log_of_segments(3)

    assert end_of(log, high_watermark=2 * ROWS) == 2 * ROWS
    assert end_of(log, high_watermark=2 * ROWS - 1) == ROWS
    assert end_of(log, high_watermark=0) == 0


def test_only_what_is_synced_and_what_the_journal_says_nothing_of() -> None:
    log = log_of_segments(3)
    log.sync()
    everything = log.end_offset
    log.journaled_from = 2 * ROWS + 1
    found = plan(log, high_watermark=everything, now_ms=NOW_MS)
    assert found is not None
    assert found.end_offset == 2 * ROWS

    log.journaled_from, log.recovery_point = everything, ROWS
    found = plan(log, high_watermark=everything, now_ms=NOW_MS)
    assert found is not None
    assert found.end_offset == ROWS


def test_only_what_no_open_transaction_reaches_into() -> None:
    log = log_of_segments(2)
    append(log, keyed((b"x", b"1"), producer_id=1, epoch=0, sequence=0, transactional=True))
    log.roll(NOW_MS)

    assert end_of(log) == 2 * ROWS


def test_records_younger_than_the_lag_wait() -> None:
    log = log_of_segments(3, step_ms=1_000, min_compaction_lag_ms=10_000)

    assert end_of(log, now_ms=NOW_MS + 9_999) == 0
    assert end_of(log, now_ms=NOW_MS + 11_000) == 2 * ROWS


def test_it_pays_from_the_dirty_ratio_on() -> None:
    log = log_of_segments(2, min_cleanable_dirty_ratio=0.5)
    clean(log)
    for row in range(ROWS // 2):
        append(log, keyed((b"k%d" % row, b"v")))
    log.roll(NOW_MS)
    found = planned(log)
    assert found is not None
    assert found.first_dirty == 2 * ROWS
    assert 0.2 < found.dirty_ratio < 0.4
    assert not found.pays

    for row in range(2 * ROWS):
        append(log, keyed((b"k%d" % row, b"v")))
    log.roll(NOW_MS)
    found = planned(log)
    assert found is not None
    assert found.pays


def test_it_is_overdue_after_the_longest_lag_whatever_the_ratio() -> None:
    log = log_of_segments(2, min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=DAY_MS)
    clean(log)
    append(log, keyed((b"k", b"v")))
    log.roll(NOW_MS)

    early, late = planned(log, now_ms=NOW_MS + DAY_MS), planned(log, now_ms=NOW_MS + DAY_MS + 1)

    assert early is not None
    assert not early.pays
    assert late is not None
    assert late.pays
    assert late.urgency > early.urgency


def test_a_segment_is_closed_before_its_records_are_overdue() -> None:
    log = open_log(CrashingDisk(seed=1), cleanup_policy=COMPACTED, max_compaction_lag_ms=1_000)
    append(log, keyed((b"k", b"v"), timestamp_ms=NOW_MS))
    append(log, keyed((b"k", b"v"), timestamp_ms=NOW_MS + 1_001), now_ms=NOW_MS + 1_001)

    assert [segment.base_offset for segment in log.segments] == [0, 1]


def test_what_was_cut_off_counts_as_dirty_again() -> None:
    log = log_of_segments(3)
    clean(log)
    assert log.clean_offset == 3 * ROWS

    log.truncate_to(2 * ROWS)

    assert log.clean_offset <= 2 * ROWS


def test_a_task_says_what_producers_need() -> None:
    log = log_of_segments(1)
    append(log, keyed((b"x", b"1"), (b"y", b"1"), producer_id=4, epoch=2, sequence=0))
    log.roll(NOW_MS)
    found = planned(log)
    assert found is not None

    task = task_of(found, CleanerConfig(), now_ms=NOW_MS)

    assert [(one.producer_id, one.epoch, one.last_offset) for one in task.producers] == [(4, 2, ROWS + 1)]
    assert [(one.base_offset, one.end_offset) for one in task.sources] == [(0, ROWS), (ROWS, ROWS + 2)]
