import struct
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

from ottla.errors import CorruptBatchError, InvariantError
from ottla.protocol import records as module
from ottla.protocol.records import (
    NO_OFFSET,
    BatchHeader,
    Compression,
    Record,
    TimestampType,
    build_batch,
    build_plain_batch,
    check_crc,
    crc32c,
    iter_batches,
    read_records,
)

NOW_MS = 1_700_000_000_000

some_records = st.lists(
    st.builds(
        Record,
        key=st.none() | st.binary(max_size=10),
        value=st.none() | st.binary(max_size=10) | st.just(b"v" * 300),
        headers=st.lists(st.tuples(st.text(max_size=4), st.none() | st.binary(max_size=4)), max_size=2),
        timestamp_ms=st.integers(NOW_MS - 10_000, NOW_MS + 10_000),
        offset=st.just(NO_OFFSET),
    ),
    min_size=1,
    max_size=5,
)

BATCH_WRITERS = [
    pytest.param(KafkaPythonBuilder, KafkaPythonBatch, [0, 1, 3, 4], id="kafka-python"),
    pytest.param(AiokafkaBuilder, AiokafkaBatch, [0, 1, 2, 3, 4], id="aiokafka"),
]
"""kafka-python has snappy only with another library; aiokafka has all five."""


def plain(records: Any) -> list[Any]:
    return [
        (r.offset, r.timestamp, bytes_or_none(r.key), bytes_or_none(r.value), headers_of(r.headers)) for r in records
    ]


def ours(records: Any) -> list[Any]:
    return [(r.offset, r.timestamp_ms, r.key, r.value, headers_of(r.headers)) for r in records]


def bytes_or_none(value: Any) -> bytes | None:
    return None if value is None else bytes(value)


def headers_of(headers: Any) -> list[tuple[str, bytes | None]]:
    return [(name, bytes_or_none(value)) for name, value in headers]


@pytest.mark.parametrize(("builder_class", "batch_class", "codecs"), BATCH_WRITERS)
@given(records=some_records)
@settings(max_examples=25, deadline=None)
def test_we_read_what_other_clients_write(builder_class: Any, batch_class: Any, codecs: Any, records: Any) -> None:
    for codec in codecs:
        builder = builder_class(
            magic=2,
            compression_type=codec,
            is_transactional=True,
            producer_id=7,
            producer_epoch=3,
            base_sequence=5,
            batch_size=1 << 20,
        )
        for offset, record in enumerate(records):
            builder.append(offset, record.timestamp_ms, record.key, record.value, list(record.headers))
        written = bytes(builder.build())

        (batch,) = iter_batches(written)
        check_crc(batch)
        assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (7, 3, 5)
        assert batch.is_transactional
        assert not batch.is_control
        assert batch.last_offset == len(records) - 1
        assert ours(read_records(written)) == plain(batch_class(written))


@pytest.mark.parametrize(("builder_class", "batch_class", "codecs"), BATCH_WRITERS)
@given(records=some_records, base_offset=st.integers(0, 2**40))
@settings(max_examples=25, deadline=None)
def test_other_clients_read_what_we_write(
    builder_class: Any, batch_class: Any, codecs: Any, records: list[Record], base_offset: int
) -> None:
    for codec in codecs:
        written = build_batch(
            records,
            base_offset=base_offset,
            compression=Compression(codec),
            producer_id=7,
            producer_epoch=3,
            base_sequence=5,
            leader_epoch=9,
        )
        batch = batch_class(written)

        assert batch.validate_crc()
        assert plain(batch) == [
            (base_offset + i, r.timestamp_ms, r.key, r.value, headers_of(r.headers)) for i, r in enumerate(records)
        ]
        assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (7, 3, 5)


@given(records=some_records)
@settings(max_examples=25, deadline=None)
def test_uncompressed_batches_are_byte_for_byte_those_of_kafka_python(records: list[Record]) -> None:
    builder = KafkaPythonBuilder(
        magic=2, compression_type=0, is_transactional=False, producer_id=-1, producer_epoch=-1, base_sequence=-1,
        batch_size=1 << 20,
    )  # fmt: skip
    for offset, record in enumerate(records):
        builder.append(offset, record.timestamp_ms, record.key, record.value, list(record.headers))
    theirs = bytearray(builder.build())

    mine = build_batch(records, leader_epoch=struct.unpack_from(">i", theirs, module.LEADER_EPOCH_AT)[0])

    assert mine == bytes(theirs)


def test_names_of_offsets_agree_with_the_header() -> None:
    batch = build_batch(
        [Record(value=b"v", timestamp_ms=20), Record(timestamp_ms=30)],
        base_offset=1, leader_epoch=2, producer_id=3, producer_epoch=4, base_sequence=5, control=True,
    )  # fmt: skip
    header = BatchHeader.parse(batch)

    def at(letter: str, position: int) -> int:
        number: int = struct.unpack_from(">" + letter, batch, position)[0]
        return number

    assert at("q", module.BASE_OFFSET_AT) == header.base_offset == 1
    assert at("i", module.LENGTH_AT) == header.length == len(batch) - 12
    assert at("i", module.LEADER_EPOCH_AT) == header.leader_epoch == 2
    assert at("b", module.MAGIC_AT) == header.magic == 2
    assert at("I", module.CRC_AT) == header.crc == crc32c(batch[module.BODY_AT :])
    assert at("h", module.ATTRIBUTES_AT) == header.attributes == module.CONTROL_BIT
    assert at("i", module.LAST_OFFSET_DELTA_AT) == header.last_offset_delta == 1
    assert at("q", module.BASE_TIMESTAMP_AT) == header.base_timestamp_ms == 20
    assert at("q", module.MAX_TIMESTAMP_AT) == header.max_timestamp_ms == 30
    assert at("q", module.PRODUCER_ID_AT) == header.producer_id == 3
    assert at("h", module.PRODUCER_EPOCH_AT) == header.producer_epoch == 4
    assert at("i", module.BASE_SEQUENCE_AT) == header.base_sequence == 5
    assert at("i", module.RECORD_COUNT_AT) == header.record_count == 2
    assert module.BATCH_HEADER.size == module.RECORDS_AT == module.HEAD.size + module.BODY_HEADER.size
    assert header.data == batch


def test_records_with_offsets_keep_them() -> None:
    batch = build_batch([Record(value=b"a", offset=10), Record(value=b"b", offset=17)], base_offset=10)

    assert [record.offset for record in read_records(batch)] == [10, 17]
    assert BatchHeader.parse(batch).last_offset == 17


def test_timestamps_of_log_append_time_are_that_of_the_batch() -> None:
    batch = build_batch(
        [Record(timestamp_ms=5), Record(timestamp_ms=9)], timestamp_type=TimestampType.LOG_APPEND, transactional=True
    )

    assert [record.timestamp_ms for record in read_records(batch)] == [9, 9]
    assert BatchHeader.parse(batch).timestamp_type is TimestampType.LOG_APPEND
    assert BatchHeader.parse(batch).is_transactional


def test_sequence_numbers_go_around() -> None:
    records = [Record()] * 3

    assert BatchHeader.parse(build_batch(records, base_sequence=2**31 - 2)).last_sequence == 0
    assert BatchHeader.parse(build_batch(records, base_sequence=5)).last_sequence == 7
    assert BatchHeader.parse(build_batch(records)).last_sequence == -1


def test_a_batch_needs_a_record() -> None:
    with pytest.raises(InvariantError):
        build_batch([])


def test_batches_are_found_one_after_the_other_and_a_cut_tail_is_left_out() -> None:
    first = build_batch([Record(value=b"1")])
    second = build_batch([Record(value=b"2")], base_offset=1)

    for cut in (1, 20, 61, len(second) - 1):
        assert [bytes(b.data) for b in iter_batches(first + second + second[:cut])] == [first, second]
    assert list(iter_batches(b"")) == []


@pytest.mark.parametrize("length", [-1, 0, 48, -(2**31)])
def test_a_length_that_no_batch_has_is_refused(length: int) -> None:
    batch = bytearray(build_batch([Record(value=b"1")]))
    struct.pack_into(">i", batch, module.LENGTH_AT, length)

    with pytest.raises(CorruptBatchError):
        list(iter_batches(batch))


@pytest.mark.parametrize("magic", [0, 1, 3])
def test_other_formats_are_refused(magic: int) -> None:
    batch = bytearray(build_batch([Record(value=b"1")]))
    batch[module.MAGIC_AT] = magic

    with pytest.raises(CorruptBatchError, match="format"):
        list(iter_batches(batch))


def test_a_flipped_bit_anywhere_in_the_body_is_noticed() -> None:
    batch = build_batch([Record(key=b"key", value=b"value", timestamp_ms=1)])

    check_crc(BatchHeader.parse(batch))
    for at in range(module.BODY_AT, len(batch)):
        flipped = bytearray(batch)
        flipped[at] ^= 1
        with pytest.raises(CorruptBatchError, match="checksum"):
            check_crc(BatchHeader.parse(flipped))


@pytest.mark.parametrize("count", [-1, 0, 1, 3, 2**31 - 1])
def test_a_count_that_is_not_that_of_the_records_is_refused(count: int) -> None:
    batch = bytearray(build_batch([Record(value=b"1"), Record(value=b"2")]))
    struct.pack_into(">i", batch, module.RECORD_COUNT_AT, count)

    with pytest.raises(CorruptBatchError):
        list(read_records(batch))


def test_an_unknown_compression_is_refused() -> None:
    batch = bytearray(build_batch([Record(value=b"1")]))
    batch[module.ATTRIBUTES_AT + 1] |= 7

    with pytest.raises(CorruptBatchError, match="compression 7"):
        list(read_records(batch))


def test_bytes_after_a_batch_are_refused() -> None:
    with pytest.raises(CorruptBatchError, match="1 bytes after"):
        read_records(build_batch([Record()]) + b"\0")


def test_a_bomb_is_refused() -> None:
    batch = build_batch([Record(value=bytes(1 << 20))], compression=Compression.ZSTD)
    assert len(batch) < 1_000

    with pytest.raises(CorruptBatchError, match="larger than it may be"):
        list(read_records(batch, max_uncompressed_bytes=1 << 19))


@given(
    records=some_records,
    codec=st.sampled_from(Compression),
    changes=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=4),
    cut=st.integers(0, 100),
)
@settings(max_examples=300, deadline=None)
def test_damaged_batches_raise_nothing_but_corrupt_batch_error(
    records: list[Record], codec: Compression, changes: list[tuple[int, int]], cut: int
) -> None:
    damaged = bytearray(build_batch(records, compression=codec))
    for at, byte in changes:
        damaged[at % len(damaged)] = byte
    del damaged[len(damaged) - cut :]
    try:
        for batch in iter_batches(damaged):
            assert len(list(read_records(batch.data, max_uncompressed_bytes=1 << 20))) == batch.record_count
    except CorruptBatchError:
        pass


@given(
    st.lists(
        st.tuples(
            st.none() | st.binary(max_size=70),
            st.none() | st.binary(max_size=70) | st.integers(60, 20_000).map(bytes),
            st.integers(NOW_MS - 10_000, NOW_MS + 10_000),
            st.just(object()),
        ),
        min_size=1,
        max_size=80,
    )
)
def test_a_plain_batch_is_the_batch_of_the_same_records(plain_records: Any) -> None:
    records = [Record(key, value, (), timestamp_ms) for key, value, timestamp_ms, _ in plain_records]

    assert build_plain_batch(plain_records) == build_batch(records)
