"""Messages that are read many at a time are what they are when they are read one at a time."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.errors import CorruptBatchError
from ottla.http.decoding import STEP_RECORDS, Aborted, Decoder
from ottla.http.edge import encode
from ottla.http.messages import Encoding, Received, received
from ottla.protocol.record import NO_OFFSET, Record
from ottla.protocol.records import Compression, TimestampType, build_batch, frame_batch, iter_batches, read_records

T = 1_700_000_000_000

content = (
    st.none() | st.binary(max_size=20) | st.text(max_size=20).map(str.encode) | st.binary(min_size=130, max_size=300)
)
headers = st.lists(st.tuples(st.text(max_size=5), content), max_size=3)
records = st.builds(Record, content, content, headers, st.integers(T - 5_000, T + 100_000), st.just(NO_OFFSET))
batches = st.lists(
    st.tuples(
        st.lists(records, min_size=1, max_size=8),
        st.sampled_from(Compression),
        st.sampled_from(TimestampType),
        st.integers(0, 3),
    ),
    max_size=6,
)


def one_by_one(data: bytes, from_offset: int, limit: int, encoding: Encoding) -> list[Received]:
    found = [
        received(record, "t", 3, encoding)
        for batch in iter_batches(data)
        for record in read_records(batch.data)
        if record.offset >= from_offset
    ]
    return found[:limit]


def at_once(data: bytes, from_offset: int, limit: int, encoding: Encoding) -> tuple[list[Received], list[int]]:
    decoder = Decoder("t", 3, encoding, limit)
    steps = list(decoder.decode(data, from_offset, Aborted(())))
    return decoder.found, steps


def log_of(
    made: Sequence[tuple[Sequence[Record], Compression, TimestampType, int]],
) -> tuple[bytes, int]:
    """The batches one after the other, with gaps between their offsets; and the offset after the last."""
    parts, at = [], 0
    for some, compression, kind, gap in made:
        parts.append(build_batch(some, base_offset=at, compression=compression, timestamp_type=kind))
        at += len(some) + gap
    return b"".join(parts), at


@settings(max_examples=150, deadline=None)
@given(batches, st.integers(0, 30), st.integers(1, 40), st.sampled_from(Encoding), st.integers(0, 60))
def test_many_at_a_time_are_the_same_as_one_at_a_time(
    made: list[tuple[list[Record], Compression, TimestampType, int]],
    from_offset: int,
    limit: int,
    encoding: Encoding,
    cut: int,
) -> None:
    data, _ = log_of(made)
    data = data[: len(data) - cut] if cut < len(data) else data
    expected = one_by_one(data, from_offset, limit, encoding)
    found, steps = at_once(data, from_offset, limit, encoding)
    assert encode(found) == encode(expected)
    assert steps == sorted(steps)
    if len(found) == limit:
        assert steps[-1] == found[-1].offset + 1
    elif found:
        assert steps[-1] > found[-1].offset


def test_a_large_batch_is_read_in_steps() -> None:
    size = 2 * STEP_RECORDS + 7
    data = build_batch([Record(None, b"%d" % n, (), T) for n in range(size)])
    found, steps = at_once(data, 3, 10_000, Encoding.TEXT)
    assert [each.value for each in found] == [str(n) for n in range(3, size)]
    assert steps == [STEP_RECORDS, 2 * STEP_RECORDS, size, size]


def test_reading_ends_at_the_limit_in_the_middle_of_a_batch() -> None:
    data = build_batch([Record(None, b"%d" % n, (), T) for n in range(STEP_RECORDS + 50)])
    found, steps = at_once(data, 0, STEP_RECORDS + 1, Encoding.TEXT)
    assert len(found) == STEP_RECORDS + 1
    assert steps[-1] == STEP_RECORDS + 1


def test_an_answer_without_records_moves_nothing() -> None:
    assert at_once(b"", 17, 10, Encoding.TEXT) == ([], [17])


GOOD = build_batch([Record(b"k", b"value", [("h", b"x")], T), Record(None, b"other", (), T)])


@pytest.mark.parametrize(
    "damaged",
    [
        frame_batch(GOOD[61:], count=1, last_delta=0, base_timestamp_ms=T, max_timestamp_ms=T),
        frame_batch(GOOD[61:], count=3, last_delta=0, base_timestamp_ms=T, max_timestamp_ms=T),
        frame_batch(GOOD[61:], count=-1, last_delta=0, base_timestamp_ms=T, max_timestamp_ms=T),
        frame_batch(b"\x01" * 20, count=1, last_delta=0, base_timestamp_ms=T, max_timestamp_ms=T),
        GOOD[:16] + b"\x01" + GOOD[17:],
        GOOD[:8] + b"\0\0\0\x05" + GOOD[12:],
    ],
)
def test_what_is_damaged_is_told_both_ways(damaged: bytes) -> None:
    with pytest.raises(CorruptBatchError):
        one_by_one(damaged, 0, 10, Encoding.TEXT)
    with pytest.raises(CorruptBatchError):
        at_once(damaged, 0, 10, Encoding.TEXT)


@given(st.binary(max_size=60), st.integers(0, 4))
def test_no_bytes_are_read_as_anything_else(garbage: bytes, count: int) -> None:
    """Whatever the records of a batch are: both ways take them for the same, or for damaged."""
    data = frame_batch(garbage, count=count, last_delta=0, base_timestamp_ms=T, max_timestamp_ms=T)
    try:
        expected = one_by_one(data, 0, 10, Encoding.TEXT)
    except CorruptBatchError:
        with pytest.raises(CorruptBatchError):
            at_once(data, 0, 10, Encoding.TEXT)
    else:
        assert encode(at_once(data, 0, 10, Encoding.TEXT)[0]) == encode(expected)
