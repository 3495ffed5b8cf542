import pytest
from aiokafka.record.util import decode_varint, encode_varint
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.errors import CorruptBatchError
from ottla.protocol.record import Record, encode_record, parse_records, read_varint, varint


def parse(data: bytes, count: int = 1) -> list[Record]:
    return list(parse_records(data, count, base_offset=0, base_timestamp_ms=0, appended_ms=None))


def record(body: bytes) -> bytes:
    return varint(len(body)) + body


@given(value=st.integers(-(2**63), 2**63 - 1))
@settings(deadline=None)
def test_varints_are_those_of_aiokafka(value: int) -> None:
    theirs = bytearray()
    encode_varint(value, theirs.append)

    assert varint(value) == bytes(theirs)
    assert read_varint(bytes(theirs), 0) == decode_varint(theirs) == (value, len(theirs))


def test_a_varint_that_does_not_end_is_refused() -> None:
    with pytest.raises(CorruptBatchError):
        read_varint(b"\xff" * 12, 0)


def test_a_record_survives_a_round_trip() -> None:
    whole = Record(key=b"k", value=None, headers=[("h", b"1"), ("", None)], timestamp_ms=100, offset=3)

    assert parse(encode_record(whole, offset_delta=3, timestamp_delta_ms=100)) == [whole]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (bytes(4), "1 records in 5 bytes"),
        (b"\0\0\0\x03\x01\0", "length of -2"),
        (b"\0\0\0\x01\x40abcde\0", "32 bytes where"),
        (b"\0\0\0\x01\x01\x02\x01\x01", "without a name"),
        (b"\0\0\0\x01\x01\x02\x02\xff\x01", "UTF-8"),
        (b"\0\0\0\x01\x01\x7f", "headers"),
        (b"\0\0\0\x01\x01\x80\x80\x80\x80\x80\x80\x01", "headers"),
        (b"\0\0\0\x01\x01\0\0", "off"),
    ],
)
def test_a_record_that_is_not_what_it_says_is_refused(body: bytes, why: str) -> None:
    with pytest.raises(CorruptBatchError, match=why):
        parse(record(body))


@pytest.mark.parametrize("data", [b"\x01" + bytes(6), b"\x7f" + bytes(6), b"\x10\0\0\x80\x80\x80\x80"])
def test_a_record_whose_length_is_not_there_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptBatchError):
        parse(data)


def test_bytes_after_the_last_record_are_refused() -> None:
    with pytest.raises(CorruptBatchError, match="1 bytes after the last record"):
        parse(encode_record(Record(), 0, 0) + b"\0")
