"""Which segments go: Kafka's rules as a table."""

from typing import Any

import pytest

from ottla.config import LogConfig
from ottla.storage.log import Log
from ottla.storage.retention import Reason, expired
from ottla.testing.disk import CrashingDisk
from tests.storage.batches import NOW_MS, append, batch, open_log

BATCH_BYTES = len(batch(bytes(100)))
HOUR_MS = 3_600_000


def four_segments(**config: Any) -> Log:
    """Two batches each, at offsets 0 to 7; the records of each segment are an hour younger than those before it."""
    log = open_log(CrashingDisk(), segment_bytes=2 * BATCH_BYTES, **config)
    for number in range(8):
        append(log, batch(bytes(100), timestamp_ms=NOW_MS - (3 - number // 2) * HOUR_MS))
    return log


def bases(log: Log, *, now_ms: int = NOW_MS, high_watermark: int = 8, **config: Any) -> list[tuple[int, Reason]]:
    doomed = expired(
        log.segments,
        LogConfig(**({"retention_ms": -1} | config)),
        start_offset=log.start_offset,
        end_offset=log.end_offset,
        high_watermark=high_watermark,
        now_ms=now_ms,
    )
    return [(segment.base_offset, reason) for segment, reason in doomed]


def test_without_limits_everything_stays() -> None:
    assert bases(four_segments(), now_ms=NOW_MS + 10**12) == []


@pytest.mark.parametrize(("hours", "gone"), [(4, []), (3, []), (2, [0]), (1, [0, 2]), (0, [0, 2, 4])])
def test_a_segment_is_too_old_when_its_youngest_record_is(hours: int, gone: list[int]) -> None:
    assert bases(four_segments(), retention_ms=hours * HOUR_MS) == [(base, Reason.AGE) for base in gone]


def test_the_segment_in_use_goes_too_when_all_of_it_is_too_old() -> None:
    assert [base for base, _ in bases(four_segments(), retention_ms=0, now_ms=NOW_MS + 1)] == [0, 2, 4, 6]


def test_an_old_segment_behind_a_younger_one_stays() -> None:
    log = open_log(CrashingDisk(), segment_bytes=BATCH_BYTES, segment_ms=10**15)
    for timestamp_ms in (NOW_MS, NOW_MS - 10 * HOUR_MS, NOW_MS):
        append(log, batch(bytes(100), timestamp_ms=timestamp_ms))

    assert bases(log, high_watermark=3, retention_ms=HOUR_MS) == []


def test_records_without_timestamps_are_as_old_as_their_segment() -> None:
    log = open_log(CrashingDisk())
    append(log, batch(b"x", timestamp_ms=-1))

    assert bases(log, high_watermark=1, retention_ms=HOUR_MS, now_ms=NOW_MS + HOUR_MS) == []
    assert bases(log, high_watermark=1, retention_ms=HOUR_MS, now_ms=NOW_MS + HOUR_MS + 1) == [(0, Reason.AGE)]


@pytest.mark.parametrize(
    ("retention_batches", "gone"),
    [(8, []), (7, []), (6, [0]), (5, [0]), (4, [0, 2]), (1, [0, 2, 4]), (0, [0, 2, 4, 6])],
)
def test_the_log_is_never_made_smaller_than_it_may_be(retention_batches: int, gone: list[int]) -> None:
    found = bases(four_segments(), retention_bytes=retention_batches * BATCH_BYTES)

    assert found == [(base, Reason.SIZE) for base in gone]


@pytest.mark.parametrize(("start_offset", "gone"), [(1, []), (2, [0]), (3, [0]), (7, [0, 2, 4]), (8, [0, 2, 4])])
def test_what_lies_before_the_start_of_the_log_goes_whatever_the_policy(start_offset: int, gone: list[int]) -> None:
    log = four_segments()
    log.delete_records_before(start_offset)

    found = bases(log, cleanup_policy=frozenset({"compact"}), retention_bytes=0, retention_ms=0)

    assert found == [(base, Reason.START_OFFSET) for base in gone]


@pytest.mark.parametrize(("high_watermark", "gone"), [(0, []), (1, []), (2, [0]), (5, [0, 2]), (8, [0, 2, 4, 6])])
def test_nothing_goes_that_readers_could_not_see(high_watermark: int, gone: list[int]) -> None:
    assert [base for base, _ in bases(four_segments(), retention_bytes=0, high_watermark=high_watermark)] == gone


def test_the_reasons_add_up() -> None:
    log = four_segments()
    log.delete_records_before(2)

    found = bases(log, retention_bytes=4 * BATCH_BYTES, retention_ms=0)

    assert found == [(0, Reason.START_OFFSET), (2, Reason.SIZE), (4, Reason.AGE)]


def test_an_empty_segment_in_use_stays() -> None:
    log = open_log(CrashingDisk())

    assert bases(log, high_watermark=0, retention_bytes=0, retention_ms=0, now_ms=NOW_MS + 10**12) == []
