"""The compiled decoder against `ottla.protocol.records`, which reads a record at a time."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.errors import CorruptBatchError
from ottla.protocol.control import build_end_txn_marker
from ottla.protocol.records import Compression, Record, TimestampType, build_batch, iter_batches, read_records
from pyspark_ottla.decoding import COLUMNS, Decoder, Range, last_offset_in

EVERYTHING = Range(topic="orders", topic_id=bytes(16), partition=3, start=0, end=2**40)

blobs = st.none() | st.binary(max_size=300)
headers = st.lists(st.tuples(st.text(max_size=12), st.none() | st.binary(max_size=200)), max_size=3)
records = st.builds(
    Record, key=blobs, value=blobs, headers=headers, timestamp_ms=st.integers(0, 2**41), offset=st.just(-1)
)


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """Batches as in a log, with gaps before, between and inside them."""
    at, out = draw(st.integers(0, 10)), []
    for several in draw(st.lists(st.lists(records, min_size=1, max_size=20), max_size=5)):
        base, placed = at, []
        for record in several:
            at += draw(st.integers(0, 3))
            placed.append(record._replace(offset=at))
            at += 1
        batch = build_batch(
            placed,
            base_offset=base,
            compression=draw(st.sampled_from(Compression)),
            timestamp_type=draw(st.sampled_from(TimestampType)),
        )
        out.append(batch)
    return b"".join(out)


def decoded(
    log: bytes, wanted: Range = EVERYTHING, aborted: list[tuple[int, int]] | None = None
) -> list[dict[str, object]]:
    batches = list(Decoder(wanted, COLUMNS).decode(memoryview(log), aborted or []))
    for batch in batches:
        batch.validate(full=True)
    rows: list[dict[str, object]] = pa.Table.from_batches(batches, COLUMNS).to_pylist()
    return rows


@settings(max_examples=150, deadline=None)
@given(logs(), st.integers(0, 40), st.integers(0, 80))
def test_every_record_of_the_range_is_what_the_slow_reader_reads(log: bytes, start: int, size: int) -> None:
    wanted = Range(topic="orders", topic_id=bytes(16), partition=3, start=start, end=start + size)
    expected = [
        (record, batch.timestamp_type)
        for batch in iter_batches(log)
        for record in read_records(batch.data)
        if start <= record.offset < start + size
    ]

    rows = decoded(log, wanted)

    assert [row["offset"] for row in rows] == [record.offset for record, _ in expected]
    for row, (record, kind) in zip(rows, expected, strict=True):
        assert (row["key"], row["value"]) == (record.key, record.value)
        assert row["headers"] == ([{"key": k, "value": v} for k, v in record.headers] or None)
        assert row["timestampType"] == kind
        assert (row["topic"], row["partition"]) == ("orders", 3)
    table = pa.Table.from_batches(Decoder(wanted, COLUMNS).decode(memoryview(log), []), COLUMNS)
    assert table["timestamp"].cast(pa.int64()).to_pylist() == [record.timestamp_ms * 1000 for record, _ in expected]


def test_control_batches_and_aborted_transactions_are_left_out() -> None:
    def written(value: bytes, producer_id: int, at: int) -> bytes:
        return build_batch(
            [Record(value=value, timestamp_ms=1)],
            base_offset=at,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )

    def ended(committed: bool, producer_id: int, at: int) -> bytes:
        return build_end_txn_marker(
            committed=committed,
            producer_id=producer_id,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp_ms=1,
            base_offset=at,
        )

    log = b"".join(
        [
            written(b"one, aborted", 1, 0),
            written(b"two, committed", 2, 1),
            ended(False, 1, 2),
            written(b"one again, committed", 1, 3),
            ended(True, 2, 4),
            ended(True, 1, 5),
        ]
    )

    assert [row["value"] for row in decoded(log, aborted=[(1, 0)])] == [b"two, committed", b"one again, committed"]
    assert last_offset_in(memoryview(log)) == 5


def test_a_batch_that_is_cut_off_is_left_for_the_next_fetch() -> None:
    first = build_batch([Record(value=b"a", timestamp_ms=1)])
    second = build_batch([Record(value=b"b" * 100, timestamp_ms=1)], base_offset=1)

    assert [row["value"] for row in decoded(first + second[:-1])] == [b"a"]
    assert last_offset_in(memoryview(first + second[:-1])) == 0


@settings(max_examples=100, deadline=None)
@given(st.lists(records, min_size=1, max_size=5), st.data())
def test_damaged_records_are_an_error_or_still_records_but_nothing_else(
    several: list[Record], data: st.DataObject
) -> None:
    batch = bytearray(build_batch(several))
    at = data.draw(st.integers(61, len(batch) - 1))
    batch[at] ^= 1 << data.draw(st.integers(0, 7))

    with pytest.raises(CorruptBatchError, match="checksum"):
        decoded(bytes(batch))
    try:
        list(Decoder(EVERYTHING, COLUMNS, check_crcs=False).decode(memoryview(bytes(batch)), []))
    except CorruptBatchError:
        return


def test_a_number_of_records_that_is_a_lie_is_an_error() -> None:
    batch = bytearray(build_batch([Record(value=b"a", timestamp_ms=1)]))
    batch[60] = 2

    with pytest.raises(CorruptBatchError):
        list(Decoder(EVERYTHING, COLUMNS, check_crcs=False).decode(memoryview(bytes(batch)), []))
