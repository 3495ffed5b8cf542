"""What a batch must be to get in: each refusal with the error that Kafka's clients know."""

import struct
from typing import Any

import pytest

from ottla.config import CompressionType, TimestampType
from ottla.errors import BrokerError, ErrorCode
from ottla.protocol.records import BODY_AT, BatchHeader, Compression, check_crc, crc32c, read_records
from ottla.storage.append import Origin, read_marker
from ottla.storage.log import Log
from ottla.storage.producer_state import Marker
from ottla.testing.disk import CrashingDisk
from tests.storage.batches import NOW_MS, append, batch, contents, marker, open_log

GOOD = batch(b"a", b"b")
ATTRIBUTES_AT, DELTA_AT, COUNT_AT = 21, 23, 57


def changed(data: bytes, at: int, format_: str, value: int, *, fix_crc: bool = True) -> bytes:
    """`data` with one field changed, and a right checksum."""
    out = bytearray(data)
    struct.pack_into(format_, out, at, value)
    if fix_crc:
        struct.pack_into(">I", out, 17, crc32c(bytes(out[BODY_AT:])))
    return bytes(out)


def refusal(data: bytes, **config: Any) -> ErrorCode:
    log = open_log(CrashingDisk(), **config)
    with pytest.raises(BrokerError) as refused:
        log.append_as_leader(memoryview(data), leader_epoch=0, now_ms=NOW_MS)
    assert log.end_offset == 0
    assert log.pending == []
    return refused.value.code


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", ErrorCode.INVALID_RECORD),
        (b"\0" * 16, ErrorCode.CORRUPT_MESSAGE),
        (GOOD[:60], ErrorCode.CORRUPT_MESSAGE),
        (GOOD[:-1], ErrorCode.CORRUPT_MESSAGE),
        (GOOD + b"x", ErrorCode.INVALID_RECORD),
        (GOOD + GOOD, ErrorCode.INVALID_RECORD),
        (changed(GOOD, 8, ">i", -1), ErrorCode.CORRUPT_MESSAGE),
        (changed(GOOD, 8, ">i", 2**31 - 1), ErrorCode.CORRUPT_MESSAGE),
        (changed(GOOD, 8, ">i", 48), ErrorCode.CORRUPT_MESSAGE),
        (changed(GOOD, 16, ">b", 0), ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
        (changed(GOOD, 16, ">b", 1), ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
        (bytes(16) + b"\1" + bytes(10), ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
        (changed(GOOD, 16, ">b", 3), ErrorCode.CORRUPT_MESSAGE),
        (changed(GOOD, 60, ">b", 9, fix_crc=False), ErrorCode.CORRUPT_MESSAGE),
        (changed(GOOD, 0, ">q", 5), ErrorCode.INVALID_RECORD),
        (changed(GOOD, COUNT_AT, ">i", 0), ErrorCode.INVALID_RECORD),
        (changed(GOOD, COUNT_AT, ">i", -1), ErrorCode.INVALID_RECORD),
        (changed(GOOD, COUNT_AT, ">i", 3), ErrorCode.INVALID_RECORD),
        (changed(GOOD, DELTA_AT, ">i", -1), ErrorCode.INVALID_RECORD),
        (changed(GOOD, DELTA_AT, ">i", 2**31 - 1), ErrorCode.INVALID_RECORD),
        (changed(GOOD, ATTRIBUTES_AT, ">h", 0x20), ErrorCode.INVALID_RECORD),
        (changed(GOOD, ATTRIBUTES_AT, ">h", 0x40), ErrorCode.INVALID_RECORD),
        (changed(GOOD, ATTRIBUTES_AT, ">h", 0x08), ErrorCode.INVALID_TIMESTAMP),
        (changed(GOOD, ATTRIBUTES_AT, ">h", 5), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (batch(b"x", producer_id=1, epoch=0, sequence=-1), ErrorCode.INVALID_RECORD),
        (batch(b"x", producer_id=1, epoch=-1, sequence=0), ErrorCode.INVALID_RECORD),
        (batch(b"x", timestamp_ms=NOW_MS + 3_600_001), ErrorCode.INVALID_TIMESTAMP),
    ],
)
def test_a_bad_batch_is_refused_and_leaves_no_trace(data: bytes, code: ErrorCode) -> None:
    assert refusal(data) is code


def test_a_batch_larger_than_the_topic_takes_is_refused() -> None:
    assert refusal(GOOD, max_message_bytes=len(GOOD) - 1) is ErrorCode.MESSAGE_TOO_LARGE
    assert append(open_log(CrashingDisk(), max_message_bytes=len(GOOD)), GOOD) == 0


def test_a_batch_larger_than_a_segment_is_refused() -> None:
    assert refusal(GOOD, segment_bytes=len(GOOD) - 1) is ErrorCode.RECORD_LIST_TOO_LARGE
    assert append(open_log(CrashingDisk(), segment_bytes=len(GOOD)), GOOD) == 0


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_bytes_will_do(kind: type) -> None:
    log = open_log(CrashingDisk())

    append(log, kind(GOOD))

    assert contents(log) == [(0, b"a"), (1, b"b")]


def test_what_is_appended_is_a_copy() -> None:
    log = open_log(CrashingDisk())
    receive_buffer = bytearray(GOOD)
    log.append_as_leader(memoryview(receive_buffer), leader_epoch=0, now_ms=NOW_MS)

    receive_buffer[:] = bytes(len(GOOD))
    log.write_pending()

    assert contents(log) == [(0, b"a"), (1, b"b")]


# Timestamps


@pytest.mark.parametrize(
    ("timestamp_ms", "accepted"),
    [
        (NOW_MS - 1_000, True),
        (NOW_MS - 1_001, False),
        (NOW_MS + 500, True),
        (NOW_MS + 501, False),
        (-1, True),  # no timestamp at all is not a wrong one
    ],
)
def test_timestamps_must_be_near_the_clock(timestamp_ms: int, accepted: bool) -> None:
    limits: dict[str, Any] = {"message_timestamp_before_max_ms": 1_000, "message_timestamp_after_max_ms": 500}
    data = batch(b"x", timestamp_ms=timestamp_ms)

    if accepted:
        append(open_log(CrashingDisk(), **limits), data)
    else:
        assert refusal(data, **limits) is ErrorCode.INVALID_TIMESTAMP


def test_the_broker_itself_may_write_any_timestamp() -> None:
    append(open_log(CrashingDisk()), batch(b"x", timestamp_ms=10**15), origin=Origin.COORDINATOR)


def test_with_append_time_the_batch_gets_the_brokers_timestamp_and_a_new_checksum() -> None:
    log = open_log(CrashingDisk(), message_timestamp_type=TimestampType.LOG_APPEND_TIME)
    data = batch(b"a", b"b", timestamp_ms=[5, 3])

    append(log, data)

    stored = BatchHeader.parse(log.read(0, 10_000, upto_offset=2, min_one_batch=True))
    check_crc(stored)
    assert stored.max_timestamp_ms == NOW_MS
    assert [record.timestamp_ms for record in read_records(stored.data)] == [NOW_MS, NOW_MS]
    assert bytes(stored.data[61:]) == data[61:]
    assert log.segments[0].largest_timestamp.timestamp_ms == NOW_MS
    assert log.stamps_append_time


# Compression


@pytest.mark.parametrize("sent", list(Compression))
def test_batches_are_kept_as_they_were_sent(sent: Compression) -> None:
    log = open_log(CrashingDisk())
    data = batch(b"a" * 100, compression=sent)

    append(log, data)

    assert log.read(0, 10_000, upto_offset=1, min_one_batch=True)[BODY_AT:] == data[BODY_AT:]


@pytest.mark.parametrize("sent", list(Compression))
@pytest.mark.parametrize(
    ("wanted", "stored"),
    [
        (CompressionType.UNCOMPRESSED, Compression.NONE),
        (CompressionType.GZIP, Compression.GZIP),
        (CompressionType.SNAPPY, Compression.SNAPPY),
        (CompressionType.LZ4, Compression.LZ4),
        (CompressionType.ZSTD, Compression.ZSTD),
    ],
)
def test_a_topic_may_want_another_compression(sent: Compression, wanted: CompressionType, stored: Compression) -> None:
    log = open_log(CrashingDisk(), compression_type=wanted)
    data = batch(b"a" * 100, b"b", compression=sent, producer_id=9, epoch=2, sequence=0, transactional=True)

    append(log, data)

    found = BatchHeader.parse(log.read(0, 10_000, upto_offset=2, min_one_batch=True))
    check_crc(found)
    assert found.compression is stored
    assert (found.producer_id, found.producer_epoch, found.base_sequence) == (9, 2, 0)
    assert found.is_transactional
    assert contents(log) == [(0, b"a" * 100), (1, b"b")]


def test_a_batch_that_grows_too_large_when_it_is_unpacked_is_refused() -> None:
    data = batch(bytes(5_000), compression=Compression.ZSTD)

    assert (
        refusal(data, compression_type=CompressionType.UNCOMPRESSED, max_message_bytes=5_000)
        is ErrorCode.MESSAGE_TOO_LARGE
    )


def test_bytes_that_can_not_be_unpacked_are_refused_where_they_must_be() -> None:
    data = changed(GOOD, ATTRIBUTES_AT, ">h", Compression.GZIP)

    assert refusal(data, compression_type=CompressionType.ZSTD) is ErrorCode.CORRUPT_MESSAGE


# Compaction


def compacted() -> Log:
    return open_log(CrashingDisk(), cleanup_policy=frozenset({"compact"}))


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.LZ4])
def test_a_compacted_topic_takes_only_records_with_keys(compression: Compression) -> None:
    assert append(compacted(), batch(b"x", key=b"k", compression=compression)) == 0
    with pytest.raises(BrokerError) as refused:
        append(compacted(), batch(b"x", compression=compression))
    assert refused.value.code is ErrorCode.INVALID_RECORD


def test_a_compacted_topic_refuses_what_it_can_not_look_into() -> None:
    data = changed(GOOD, ATTRIBUTES_AT, ">h", Compression.ZSTD)

    assert refusal(data, cleanup_policy=frozenset({"compact"})) is ErrorCode.CORRUPT_MESSAGE


# Markers


@pytest.mark.parametrize("commits", [True, False])
def test_a_marker_is_read_from_its_batch(commits: bool) -> None:
    data = marker(commits=commits, producer_id=1, coordinator_epoch=7)

    assert read_marker(data) == Marker(commits, 7)
