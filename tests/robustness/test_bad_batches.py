"""A batch that can't be right is refused with the error that clients know, and leaves no trace in the log."""

import struct

import google_crc32c
import pytest

from ottla.errors import ErrorCode
from ottla.protocol.record import Record
from ottla.protocol.records import build_batch
from tests.robustness.raw_client import RawClient, create_topic, produce

GOOD = build_batch(
    [Record(value=b"value", timestamp_ms=1_600_000_000_000), Record(value=b"two", timestamp_ms=1_600_000_000_001)]
)


def _with_crc(batch: bytes) -> bytes:
    """The batch with its CRC put right after a change."""
    return batch[:17] + struct.pack(">I", google_crc32c.value(batch[21:])) + batch[21:]


def _put(batch: bytes, at: int, data: bytes) -> bytes:
    return batch[:at] + data + batch[at + len(data) :]


BATCHES = {
    "wrong CRC": (_put(GOOD, 17, b"\1\2\3\4"), {ErrorCode.CORRUPT_MESSAGE}),
    "flipped bit": (GOOD[:-1] + bytes([GOOD[-1] ^ 1]), {ErrorCode.CORRUPT_MESSAGE}),
    "cut off": (GOOD[:-3], {ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD}),
    "length beyond the end": (
        _put(GOOD, 8, struct.pack(">i", 1_000_000)),
        {ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD},
    ),
    "negative length": (_put(GOOD, 8, struct.pack(">i", -5)), {ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD}),
    "record format 1": (
        _put(GOOD, 16, b"\1"),
        {ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT},
    ),
    "record format 3": (
        _put(GOOD, 16, b"\3"),
        {ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT},
    ),
    "two batches": (GOOD + GOOD, {ErrorCode.INVALID_RECORD}),
    "no batch": (b"", {ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE}),
    "a control batch": (_with_crc(_put(GOOD, 21, struct.pack(">h", 0x20))), {ErrorCode.INVALID_RECORD}),
    "count that offsets deny": (
        _with_crc(_put(GOOD, 57, struct.pack(">i", 77))),
        {ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE},
    ),
    "negative count": (
        _with_crc(_put(GOOD, 57, struct.pack(">i", -1))),
        {ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE},
    ),
    "negative last offset": (
        _with_crc(_put(GOOD, 23, struct.pack(">i", -1))),
        {ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE},
    ),
    "far future": (build_batch([Record(value=b"v", timestamp_ms=9_000_000_000_000)]), {ErrorCode.INVALID_TIMESTAMP}),
}


@pytest.mark.parametrize("name", BATCHES)
def test_a_batch_that_can_not_be_right_is_refused(bootstrap: str, topic_name: str, name: str) -> None:
    batch, expected = BATCHES[name]
    create_topic(bootstrap, topic_name)
    with RawClient(bootstrap) as client:
        refused = produce(client, topic_name, batch)
        accepted = produce(client, topic_name, GOOD)

    assert ErrorCode(refused.error_code) in expected
    assert (accepted.error_code, accepted.base_offset) == (0, 0)


def test_an_unknown_topic_and_an_unknown_partition_are_told(bootstrap: str, topic_name: str) -> None:
    with RawClient(bootstrap) as client:
        assert produce(client, topic_name, GOOD).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
