import struct

import pytest
from google_crc32c import value as crc32c
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import CorruptLogError
from ottla.storage.producer_snapshot import SnapshotEntry, decode_snapshot, encode_snapshot

INT64, INT32, INT16 = (st.integers(-(2**bits), 2**bits - 1) for bits in (63, 31, 15))
ENTRIES = st.builds(SnapshotEntry, INT64, INT16, INT32, INT64, INT32, INT64, INT32, INT64)
ENTRY = SnapshotEntry(
    producer_id=7,
    epoch=1,
    last_sequence=9,
    last_offset=119,
    offset_delta=4,
    timestamp_ms=1_700_000_000_000,
    coordinator_epoch=-1,
    txn_first_offset=110,
)


def test_the_bytes_are_those_that_kafka_writes() -> None:
    body = struct.pack(">i", 1) + struct.pack(">qhiqiqiq", 7, 1, 9, 119, 4, 1_700_000_000_000, -1, 110)

    assert encode_snapshot([ENTRY]) == struct.pack(">hI", 1, crc32c(body)) + body


def test_a_snapshot_without_producers() -> None:
    assert encode_snapshot([]).hex() == "0001" + f"{crc32c(bytes(4)):08x}" + "00000000"
    assert decode_snapshot(encode_snapshot([])) == []


@given(st.lists(ENTRIES, max_size=5))
def test_what_is_written_is_read_back(entries: list[SnapshotEntry]) -> None:
    assert decode_snapshot(encode_snapshot(entries)) == entries


@given(st.integers(0, 8 * len(encode_snapshot([ENTRY])) - 1))
def test_any_flipped_bit_is_noticed(bit: int) -> None:
    data = bytearray(encode_snapshot([ENTRY]))
    data[bit // 8] ^= 1 << bit % 8

    with pytest.raises(CorruptLogError):
        decode_snapshot(bytes(data))


@pytest.mark.parametrize("size", [0, 5, 9, 20])
def test_a_torn_snapshot_is_noticed(size: int) -> None:
    with pytest.raises(CorruptLogError):
        decode_snapshot(encode_snapshot([ENTRY])[:size])


def test_a_count_that_does_not_match_is_noticed() -> None:
    body = struct.pack(">i", 2) + encode_snapshot([ENTRY])[10:]

    with pytest.raises(CorruptLogError, match="2 entries"):
        decode_snapshot(struct.pack(">hI", 1, crc32c(body)) + body)
