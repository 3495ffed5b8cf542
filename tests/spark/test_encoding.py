"""The compiled encoder, read back by `ottla.protocol.records` and compared with the partitioner of the HTTP API."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.http.partitioner import murmur2
from ottla.protocol.records import Record, frame_batch, read_records
from pyspark_ottla.decoding import HEADERS_TYPE
from pyspark_ottla.encoding import EncodedBatch, Encoder, RowsError, gathered

PARTITIONS = 5

blobs = st.none() | st.binary(max_size=200)
pairs = st.lists(
    st.fixed_dictionaries({"key": st.text(max_size=8), "value": st.none() | st.binary(max_size=20)}), max_size=3
)
rows = st.fixed_dictionaries(
    {
        "key": blobs,
        "value": blobs,
        "headers": st.none() | pairs,
        "topic": st.sampled_from(["a", "b"]),
        "partition": st.none() | st.integers(0, PARTITIONS - 1),
    }
)
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS_TYPE),
        ("topic", pa.string()),
        ("partition", pa.int32()),
    ]
)


def read(batch: EncodedBatch) -> list[Record]:
    framed = frame_batch(
        batch.records, count=batch.count, last_delta=batch.count - 1, base_timestamp_ms=7, max_timestamp_ms=7
    )
    return list(read_records(framed))


def partition_of(key: bytes) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % PARTITIONS


@settings(max_examples=150, deadline=None)
@given(st.lists(rows, max_size=30), st.integers(0, 10), st.sampled_from([1, 150, 100_000]))
def test_every_row_is_one_record_in_its_partition_and_in_order(
    several: list[dict[str, object]], skipped: int, batch_bytes: int
) -> None:
    batch = pa.RecordBatch.from_pylist(several, SCHEMA)[skipped:]
    encoded = list(Encoder(None, lambda _: PARTITIONS, batch_bytes).encode(batch))

    found: dict[tuple[str, int], list[Record]] = {}
    for piece in encoded:
        assert len(piece.records) <= batch_bytes or piece.count == 1
        found.setdefault(piece.at, []).extend(read(piece))
    written = several[skipped:]
    assert sum(map(len, found.values())) == len(written)
    for (topic, partition), records in found.items():
        expected = [row for row in written if row["topic"] == topic and _belongs(row, partition, records)]
        contents = [(record.key, record.value, list(record.headers)) for record in records]
        keyed = [content for content in contents if content[0] is not None]
        assert keyed == [_content(row) for row in expected if row["key"] is not None]
        assert all(_content(row) in contents for row in expected)


def _belongs(row: dict[str, object], partition: int, records: list[Record]) -> bool:
    if row["partition"] is not None:
        return row["partition"] == partition
    return isinstance(row["key"], bytes) and partition_of(row["key"]) == partition


def _content(row: dict[str, object]) -> tuple[object, object, list[tuple[str, bytes | None]]]:
    headers: list[dict[str, object]] = row["headers"] or []  # type: ignore[assignment]  # a list of such, or None
    return row["key"], row["value"], [(pair["key"], pair["value"]) for pair in headers]  # type: ignore[misc]  # as above


def test_text_is_written_as_its_bytes_and_the_option_says_the_topic() -> None:
    batch = pa.RecordBatch.from_pydict({"key": ["ä", None], "value": ["x", None]})

    encoded = list(Encoder("orders", lambda _: 1, 1000).encode(batch))

    assert [piece.at for piece in encoded] == [("orders", 0)]
    assert [(record.key, record.value) for record in read(encoded[0])] == [("ä".encode(), b"x"), (None, None)]


def test_rows_without_a_key_go_around_the_partitions() -> None:
    batch = pa.RecordBatch.from_pydict({"value": [b"x"] * 10_000})

    counts = {piece.at[1]: piece.count for piece in Encoder("t", lambda _: 4, 1_000_000).encode(batch)}

    assert sorted(counts) == [0, 1, 2, 3]
    assert max(counts.values()) - min(counts.values()) <= 1_024


def test_rows_that_do_not_say_where_they_go_are_an_error() -> None:
    with pytest.raises(RowsError, match="topic"):
        list(Encoder(None, lambda _: 1, 1000).encode(pa.RecordBatch.from_pydict({"value": [b"x"]})))
    batch = pa.RecordBatch.from_pydict({"value": [b"x"], "partition": [7]})
    with pytest.raises(RowsError, match="partition 7"):
        list(Encoder("t", lambda _: 2, 1000).encode(batch))


@given(counts=st.lists(st.integers(0, 50), max_size=10), size_bytes=st.integers(1, 2_000))
@settings(max_examples=30, deadline=None)
def test_rows_are_gathered_in_their_order(counts: list[int], size_bytes: int) -> None:
    batches = [
        pa.record_batch({"value": pa.array([b"%d" % row for row in range(count)], pa.binary())}) for count in counts
    ]

    found = list(gathered(iter(batches), size_bytes))

    assert [row for batch in found for row in batch.to_pylist()] == [
        row for batch in batches for row in batch.to_pylist()
    ]
    assert all(batch.nbytes >= size_bytes for batch in found[:-1])
