import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.config import TimestampType
from ottla.errors import BrokerError, ErrorCode
from ottla.protocol.records import Compression
from ottla.testing.disk import CrashingDisk
from tests.storage.batches import NOW_MS, append, batch, open_log


@pytest.mark.parametrize("compression", list(Compression))
def test_the_exact_record_inside_a_batch_is_found(compression: Compression) -> None:
    log = open_log(CrashingDisk())
    append(log, batch(b"a", b"b", b"c", timestamp_ms=[10, 20, 30], compression=compression), leader_epoch=4)

    found = {time: log.offset_for_timestamp(time) for time in (0, 10, 11, 20, 30, 31)}

    assert found == {0: (10, 0, 4), 10: (10, 0, 4), 11: (20, 1, 4), 20: (20, 1, 4), 30: (30, 2, 4), 31: None}


def test_a_record_before_the_start_of_the_log_is_not_found() -> None:
    log = open_log(CrashingDisk())
    append(log, batch(b"a", b"b", timestamp_ms=[50, 60]), batch(b"c", timestamp_ms=40), batch(b"d", timestamp_ms=55))
    log.delete_records_before(2)

    assert log.offset_for_timestamp(45) == (55, 3, 0)


def test_what_is_not_written_yet_is_not_found() -> None:
    log = open_log(CrashingDisk())
    log.append_as_leader(batch(b"a", timestamp_ms=10), leader_epoch=0, now_ms=NOW_MS)

    assert log.offset_for_timestamp(5) is None
    assert log.max_timestamp() is None


def test_with_append_time_all_records_of_a_batch_have_its_time() -> None:
    log = open_log(CrashingDisk(), message_timestamp_type=TimestampType.LOG_APPEND_TIME)
    append(log, batch(b"a", b"b"), now_ms=NOW_MS)
    append(log, batch(b"c", b"d"), now_ms=NOW_MS + 10)

    assert log.offset_for_timestamp(NOW_MS + 1) == (NOW_MS + 10, 2, 0)
    assert log.max_timestamp() == (NOW_MS + 10, 2, 0)


def test_the_largest_timestamp_is_that_of_its_first_record() -> None:
    log = open_log(CrashingDisk(), segment_bytes=200)
    for times in ([10, 30], [99, 99], [50, 60]):
        append(log, batch(b"a", b"b", timestamp_ms=times), leader_epoch=2)

    assert log.max_timestamp() == (99, 2, 2)


def test_the_largest_timestamp_is_of_a_record_that_can_be_read() -> None:
    log = open_log(CrashingDisk(), index_interval_bytes=0)
    for time in (10, 40, 20, 30):
        append(log, batch(b"a", timestamp_ms=time))
    log.append_as_leader(batch(b"still to be written", timestamp_ms=99), leader_epoch=0, now_ms=NOW_MS)

    assert log.max_timestamp() == (40, 1, 0)
    assert log.max_timestamp(1) == (10, 0, 0)
    log.delete_records_before(2)
    assert log.max_timestamp() == (30, 3, 0)
    assert log.max_timestamp(2) is None


def test_an_empty_log_has_no_largest_timestamp() -> None:
    assert open_log(CrashingDisk()).max_timestamp() is None


def test_a_batch_that_can_not_be_opened_is_corrupt() -> None:
    log = open_log(CrashingDisk())
    append(log, batch(b"a" * 50, timestamp_ms=10, compression=Compression.ZSTD))
    log.segments[0].file().pwritev((b"\0" * 10,), 61)

    with pytest.raises(BrokerError) as refused:
        log.offset_for_timestamp(5)

    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


@settings(deadline=None)
@given(
    batches=st.lists(st.lists(st.integers(0, 100), min_size=1, max_size=4), max_size=25),
    wanted=st.lists(st.integers(0, 101), min_size=1, max_size=10),
    segment_bytes=st.sampled_from([150, 400, 10_000]),
    interval_bytes=st.sampled_from([0, 200, 4096]),
    reopened=st.booleans(),
)
def test_a_search_finds_what_a_look_at_all_records_would(
    batches: list[list[int]], wanted: list[int], segment_bytes: int, interval_bytes: int, reopened: bool
) -> None:
    disk = CrashingDisk()
    log = open_log(disk, segment_bytes=segment_bytes, index_interval_bytes=interval_bytes)
    for times in batches:
        append(log, batch(*(b"v" for _ in times), timestamp_ms=times))
    if reopened:
        log.close()
        log = open_log(disk, segment_bytes=segment_bytes, index_interval_bytes=interval_bytes)

    records = [(time, offset, 0) for offset, time in enumerate(time for times in batches for time in times)]
    for time in wanted:
        assert log.offset_for_timestamp(time) == next((record for record in records if record[0] >= time), None)
    largest = max((time for time, *_ in records), default=None)
    assert log.max_timestamp() == next((record for record in records if record[0] == largest), None)
    middle = sum(len(times) for times in batches[: len(batches) // 2])
    seen = records[:middle]
    largest = max((time for time, *_ in seen), default=None)
    assert log.max_timestamp(middle) == next((record for record in seen if record[0] == largest), None)
