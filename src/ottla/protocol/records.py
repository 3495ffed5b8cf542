"""Record batches, format 2: the bytes that clients send, logs keep and readers get.

    base offset int64, length int32 (of what follows), leader epoch int32, magic int8, crc uint32     the head: 21 bytes
    attributes int16, last offset delta int32, base timestamp int64, max timestamp int64,
    producer id int64, producer epoch int16, base sequence int32, record count int32, records        the body

The CRC covers the body and nothing else, so that a broker can set offset and leader epoch without a new one. Records
are varints and byte strings, compressed as a whole. A broker looks at the header alone: everything here that touches
single records is for compaction, coordinators and tools.
"""

import struct
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from google_crc32c import value as crc32c

from ottla.errors import CorruptBatchError, invariant
from ottla.ports import Bytes
from ottla.protocol.compression import Compression, compress, decompress
from ottla.protocol.record import NO_OFFSET, Record, encode_plain, encode_record, parse_records

__all__ = [
    "BATCH_HEADER", "BODY_HEADER", "HEAD", "MAGIC", "NO_OFFSET", "NO_PRODUCER_ID", "UNCOMPRESSED_BYTES_MAX",
    "BatchHeader", "Compression", "Plain", "Record", "TimestampType", "build_batch", "build_plain_batch", "check_crc",
    "crc32c", "iter_batches", "read_records",
]  # fmt: skip

BATCH_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
HEAD: Final = struct.Struct(">qiibI")
BODY_HEADER: Final = struct.Struct(">hiqqqhii")

BASE_OFFSET_AT: Final = 0
LENGTH_AT: Final = 8
LEADER_EPOCH_AT: Final = 12
MAGIC_AT: Final = 16
CRC_AT: Final = 17
BODY_AT: Final = 21
ATTRIBUTES_AT: Final = 21
LAST_OFFSET_DELTA_AT: Final = 23
BASE_TIMESTAMP_AT: Final = 27
MAX_TIMESTAMP_AT: Final = 35
PRODUCER_ID_AT: Final = 43
PRODUCER_EPOCH_AT: Final = 51
BASE_SEQUENCE_AT: Final = 53
RECORD_COUNT_AT: Final = 57
RECORDS_AT: Final = 61

LENGTH_OVERHEAD_BYTES: Final = 12
"""Base offset and length, which the length does not count."""
LENGTH_BYTES_MIN: Final = RECORDS_AT - LENGTH_OVERHEAD_BYTES

MAGIC: Final = 2
COMPRESSION_MASK: Final = 0b000111
LOG_APPEND_TIME_BIT: Final = 0b001000
TRANSACTIONAL_BIT: Final = 0b010000
CONTROL_BIT: Final = 0b100000

NO_PRODUCER_ID: Final = -1
UNCOMPRESSED_BYTES_MAX: Final = 64 * 1024 * 1024
"""What a batch may become when nobody says otherwise."""


Plain = tuple[bytes | None, bytes | None, int, object]
"""Key, value, timestamp in ms, and what is not written."""


class TimestampType(IntEnum):
    """Whose clock a batch's timestamps are from: the producer's, or the broker's at the time of the append."""

    CREATE = 0
    LOG_APPEND = 1


class BatchHeader(NamedTuple):
    """A batch as its header tells it, and its bytes."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    data: memoryview

    @classmethod
    def parse(cls, buffer: Bytes, at: int = 0) -> "BatchHeader":
        """The whole batch that begins at `at`. CorruptBatchError if it is cut short, or not a batch of format 2."""
        if len(buffer) - at < RECORDS_AT:
            raise CorruptBatchError(f"{len(buffer) - at} bytes are too few for a batch's header")
        fields = BATCH_HEADER.unpack_from(buffer, at)
        length, magic = fields[1], fields[3]
        if magic != MAGIC:
            raise CorruptBatchError(f"a batch of format {magic}, not {MAGIC}")
        end = at + LENGTH_OVERHEAD_BYTES + length
        if length < LENGTH_BYTES_MIN or end > len(buffer):
            raise CorruptBatchError(f"a batch of length {length}, where {len(buffer) - at} bytes are left")
        return cls._make((*fields, memoryview(buffer)[at:end]))

    @property
    def size_bytes(self) -> int:
        return LENGTH_OVERHEAD_BYTES + self.length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def last_sequence(self) -> int:
        """Sequence numbers go around from 2^31 - 1 to 0."""
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF if self.base_sequence >= 0 else -1

    @property
    def compression(self) -> Compression:
        number = self.attributes & COMPRESSION_MASK
        if number > Compression.ZSTD:
            raise CorruptBatchError(f"compression {number} is not known")
        return Compression(number)

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType.LOG_APPEND if self.attributes & LOG_APPEND_TIME_BIT else TimestampType.CREATE

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)


def iter_batches(buffer: Bytes) -> Iterator[BatchHeader]:
    """The batches in `buffer`. What a read has cut off at its end is left out."""
    at, size = 0, len(buffer)
    while size - at >= RECORDS_AT:
        (length,) = struct.unpack_from(">i", buffer, at + LENGTH_AT)
        if length > size - at - LENGTH_OVERHEAD_BYTES and length >= LENGTH_BYTES_MIN:
            return
        batch = BatchHeader.parse(buffer, at)
        yield batch
        at += batch.size_bytes


def check_crc(batch: BatchHeader) -> None:
    if crc32c(bytes(batch.data[BODY_AT:])) != batch.crc:
        raise CorruptBatchError(f"the checksum of the batch at offset {batch.base_offset} is wrong")


def read_records(batch: Bytes, *, max_uncompressed_bytes: int = UNCOMPRESSED_BYTES_MAX) -> Iterator[Record]:
    """The records of one whole batch, checked as they are read: their number, and every length. Not the CRC."""
    header = BatchHeader.parse(batch)
    if header.size_bytes != len(batch):
        raise CorruptBatchError(f"{len(batch) - header.size_bytes} bytes after a batch")
    content = decompress(header.compression, header.data[RECORDS_AT:], max_uncompressed_bytes)
    appended_ms = header.max_timestamp_ms if header.timestamp_type is TimestampType.LOG_APPEND else None
    return parse_records(
        content,
        header.record_count,
        base_offset=header.base_offset,
        base_timestamp_ms=header.base_timestamp_ms,
        appended_ms=appended_ms,
    )


def build_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    compression: Compression = Compression.NONE,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    leader_epoch: int = -1,
    timestamp_type: TimestampType = TimestampType.CREATE,
    transactional: bool = False,
    control: bool = False,
) -> bytes:
    """One batch of all `records`. A record without an offset gets the one after that of the record before it."""
    invariant(records, "a batch has at least one record")
    base_timestamp_ms = records[0].timestamp_ms
    delta = -1
    encoded: list[bytes] = []
    for record in records:
        delta = delta + 1 if record.offset == NO_OFFSET else record.offset - base_offset
        encoded.append(encode_record(record, delta, record.timestamp_ms - base_timestamp_ms))
    return frame_batch(
        b"".join(encoded),
        count=len(records),
        last_delta=delta,
        base_timestamp_ms=base_timestamp_ms,
        max_timestamp_ms=max(record.timestamp_ms for record in records),
        base_offset=base_offset,
        compression=compression,
        attributes=LOG_APPEND_TIME_BIT * timestamp_type | TRANSACTIONAL_BIT * transactional | CONTROL_BIT * control,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        leader_epoch=leader_epoch,
    )


def build_plain_batch(records: Sequence[Plain]) -> bytes:
    """`build_batch` of records without headers, in half the time: no objects and no choices on the way."""
    base_timestamp_ms = max_timestamp_ms = records[0][2]
    delta = -1
    pieces = [b""]
    for key, value, timestamp_ms, _ in records:
        delta += 1
        pieces.append(encode_plain(key, value, delta, timestamp_ms - base_timestamp_ms))
        if timestamp_ms > max_timestamp_ms:
            max_timestamp_ms = timestamp_ms
    pieces[0] = BODY_HEADER.pack(0, delta, base_timestamp_ms, max_timestamp_ms, NO_PRODUCER_ID, -1, -1, delta + 1)
    body = b"".join(pieces)
    return HEAD.pack(0, len(body) + BODY_AT - LENGTH_OVERHEAD_BYTES, -1, MAGIC, crc32c(body)) + body


def frame_batch(
    encoded: bytes,
    *,
    count: int,
    last_delta: int,
    base_timestamp_ms: int,
    max_timestamp_ms: int,
    base_offset: int = 0,
    compression: Compression = Compression.NONE,
    attributes: int = 0,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    leader_epoch: int = -1,
) -> bytes:
    """A batch of records that are encoded already, one after the other."""
    body = BODY_HEADER.pack(
        compression | attributes,
        last_delta,
        base_timestamp_ms,
        max_timestamp_ms,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    ) + compress(compression, encoded)
    length = len(body) + BODY_AT - LENGTH_OVERHEAD_BYTES
    return HEAD.pack(base_offset, length, leader_epoch, MAGIC, crc32c(body)) + body
