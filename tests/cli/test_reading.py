"""Where reading stops."""

import pytest

from ottla.cli.reading import LATE_MS, Stop
from ottla.cli.record_output import OutputRecord
from ottla.types import TopicPartition

AT = TopicPartition("t", 0)


def record(offset: int, timestamp_ms: int | None = 0) -> OutputRecord:
    return OutputRecord(topic="t", partition=0, offset=offset, timestamp_ms=timestamp_ms, key=None, value=None)


@pytest.mark.parametrize(("offset", "excluded", "last"), [(3, False, False), (4, False, True), (5, True, True)])
def test_a_partition_ends_before_its_end_offset(offset: int, excluded: bool, last: bool) -> None:
    stop = Stop(follow=False, ends={AT: 5})

    assert (stop.excludes(record(offset)), stop.is_last(record(offset))) == (excluded, last)


def test_a_partition_without_an_end_goes_on() -> None:
    stop = Stop(follow=True)

    assert not stop.excludes(record(10**12))
    assert not stop.is_last(record(10**12))


def test_a_record_of_the_time_itself_is_not_read() -> None:
    stop = Stop(follow=True, until_ms=1_000)

    assert [stop.excludes(record(0, ms)) for ms in (999, 1_000, 1_001)] == [False, True, True]
    assert not stop.excludes(record(0, None))


def test_waiting_for_a_time_ends_a_moment_after_it() -> None:
    stop = Stop(follow=True, until_ms=10_000)

    assert not stop.ends_quiet(60_000, 9_999)
    assert not stop.ends_quiet(60_000, 10_000)
    assert stop.ends_quiet(LATE_MS, 10_000 + LATE_MS)
    assert not stop.ends_quiet(LATE_MS - 1, 10_000 + LATE_MS)


def test_silence_ends_it_if_so_asked() -> None:
    assert Stop(follow=True, idle_ms=500).ends_quiet(500, 0)
    assert not Stop(follow=True, idle_ms=500).ends_quiet(499, 0)
    assert not Stop(follow=True).ends_quiet(10**9, 0)
