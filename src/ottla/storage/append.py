"""What a batch must be to get into a log, beyond what the hot path checks in line.

`Log.append_as_leader` looks at a batch's header once and only comes here when something is wrong, to find out what and
say so, or when the topic asks for more than storing the bytes as they are: the broker's timestamp, another compression,
keys in a compacted topic. Those cost time per record; nothing else does.
"""

from __future__ import annotations

import struct
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from ottla.config import CompressionType, TimestampType
from ottla.errors import BrokerError, CorruptBatchError, ErrorCode
from ottla.protocol.control import ControlType, control_type, read_end_txn_marker
from ottla.protocol.records import (
    BODY_AT,
    BODY_HEADER,
    COMPRESSION_MASK,
    CONTROL_BIT,
    LENGTH_AT,
    LENGTH_BYTES_MIN,
    LENGTH_OVERHEAD_BYTES,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    MAGIC_AT,
    RECORDS_AT,
    TRANSACTIONAL_BIT,
    Compression,
    build_batch,
    crc32c,
    read_records,
)
from ottla.storage.producer_state import Marker

if TYPE_CHECKING:
    from ottla.config import LogConfig
    from ottla.ports import Bytes
    from ottla.types import TopicPartition

CLIENT_ATTRIBUTES = frozenset(codec | bit for codec in Compression for bit in (0, TRANSACTIONAL_BIT))
"""What a client may say about its batch: a compression, and that it belongs to a transaction."""

_STAMP = struct.Struct(">hiqq")


class Origin(Enum):
    """Who appends: how much of the batch must be checked."""

    CLIENT = 1
    COORDINATOR = 2
    """The broker itself: group and transaction coordinators, the controller."""


class Stored(NamedTuple):
    """A batch as the log will keep it: all but its first 21 bytes, and what those must say."""

    body: bytes
    crc: int
    max_timestamp_ms: int


def unusable(records: Bytes, max_message_bytes: int) -> BrokerError:
    """Why these bytes are not one batch that could be appended."""
    size = len(records)
    if not size:
        return BrokerError(ErrorCode.INVALID_RECORD, "there is no record batch")
    if size > MAGIC_AT and records[MAGIC_AT] < MAGIC:
        return BrokerError(
            ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
            f"message format {records[MAGIC_AT]} is older than 2, which Kafka has had since 0.11",
        )
    if size > MAGIC_AT and records[MAGIC_AT] > MAGIC:
        return BrokerError(ErrorCode.CORRUPT_MESSAGE, f"message format {records[MAGIC_AT]} is not known")
    if size < RECORDS_AT:
        return BrokerError(ErrorCode.CORRUPT_MESSAGE, f"{size} bytes are less than the header of a record batch")
    length = struct.unpack_from(">i", records, LENGTH_AT)[0]
    if length < LENGTH_BYTES_MIN or length + LENGTH_OVERHEAD_BYTES > size:
        return BrokerError(
            ErrorCode.CORRUPT_MESSAGE, f"a record batch of {size} bytes says that {length} of them follow its length"
        )
    if length + LENGTH_OVERHEAD_BYTES < size:
        return BrokerError(ErrorCode.INVALID_RECORD, "there is more than one record batch")
    return BrokerError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"a record batch of {size} bytes is larger than max.message.bytes, {max_message_bytes}",
    )


def not_from_a_client(base_offset: int, attributes: int, last_offset_delta: int, count: int) -> BrokerError:
    """Why a client may not send such a batch."""
    if base_offset:
        why = f"the base offset of a new batch is 0, not {base_offset}"
    elif count <= 0 or last_offset_delta != count - 1:
        why = f"{count} records can't have offsets from 0 to {last_offset_delta}"
    elif attributes & CONTROL_BIT:
        why = "only a broker may write control records"
    elif attributes & LOG_APPEND_TIME_BIT:
        return BrokerError(ErrorCode.INVALID_TIMESTAMP, "only a broker may set the timestamp type LogAppendTime")
    elif attributes & COMPRESSION_MASK > Compression.ZSTD:
        return BrokerError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"compression {attributes & COMPRESSION_MASK}")
    else:
        why = f"attributes {attributes:#x} are not known"
    return BrokerError(ErrorCode.INVALID_RECORD, why)


def too_large_for_a_segment(size_bytes: int, config: LogConfig) -> BrokerError:
    return BrokerError(
        ErrorCode.RECORD_LIST_TOO_LARGE, f"{size_bytes} bytes do not fit into a segment of {config.segment_bytes}"
    )


def no_sequence(producer_id: int, epoch: int, base_sequence: int) -> BrokerError:
    """An idempotent producer must number its batches."""
    return BrokerError(
        ErrorCode.INVALID_RECORD,
        f"producer {producer_id} sent epoch {epoch} and sequence number {base_sequence}; neither may be negative",
    )


def out_of_time(timestamp_ms: int, now_ms: int, config: LogConfig) -> BrokerError:
    earliest_ms = now_ms - config.message_timestamp_before_max_ms
    latest_ms = now_ms + config.message_timestamp_after_max_ms
    return BrokerError(
        ErrorCode.INVALID_TIMESTAMP, f"timestamp {timestamp_ms} is not between {earliest_ms} and {latest_ms}"
    )


def wrong_crc(partition: TopicPartition) -> BrokerError:
    return BrokerError(ErrorCode.CORRUPT_MESSAGE, f"{partition}: the checksum of the record batch is wrong")


def looks_inside(config: LogConfig) -> bool:
    """Whether batches of this topic need more than to be stored as they are."""
    return (
        config.compacts
        or config.compression_type is not CompressionType.PRODUCER
        or config.message_timestamp_type is TimestampType.LOG_APPEND_TIME
    )


def adapt(records: Bytes, body: bytes, crc: int, *, now_ms: int, config: LogConfig, origin: Origin) -> Stored:
    """The batch as the topic's configs want it. What its header says has been checked."""
    attributes = BODY_HEADER.unpack_from(body)[0]
    is_control = bool(attributes & CONTROL_BIT)
    if config.compacts and origin is Origin.CLIENT:
        _check_keys(records)
    wanted = _wanted_compression(config, attributes)
    if wanted != attributes & COMPRESSION_MASK and not is_control:
        body = _compress_anew(records, body, wanted)
        crc = crc32c(body)
        if len(body) + BODY_AT > config.max_message_bytes:
            raise BrokerError(ErrorCode.MESSAGE_TOO_LARGE, "compressed as the topic wants, the batch is too large")
    max_timestamp_ms = BODY_HEADER.unpack_from(body)[3]
    if config.message_timestamp_type is TimestampType.LOG_APPEND_TIME:
        attributes, last_offset_delta, base_timestamp_ms = BODY_HEADER.unpack_from(body)[:3]
        stamp = _STAMP.pack(attributes | LOG_APPEND_TIME_BIT, last_offset_delta, base_timestamp_ms, now_ms)
        body = stamp + memoryview(body)[_STAMP.size :]
        return Stored(body, crc32c(body), now_ms)
    return Stored(body, crc, max_timestamp_ms)


def read_marker(batch: bytes) -> Marker | None:
    """The marker in a control batch; None if it holds none, as those of Raft and those that compaction emptied."""
    for record in read_records(batch):
        kind = control_type(record)
        if kind not in (ControlType.ABORT, ControlType.COMMIT):
            return None
        end = read_end_txn_marker(record)
        return Marker(commits=kind is ControlType.COMMIT, coordinator_epoch=end.coordinator_epoch)
    return None


def _check_keys(records: Bytes) -> None:
    try:
        keyless = any(record.key is None for record in read_records(records))
    except CorruptBatchError as error:
        raise BrokerError(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
    if keyless:
        raise BrokerError(ErrorCode.INVALID_RECORD, "a compacted topic takes only records that have a key")


def _wanted_compression(config: LogConfig, attributes: int) -> int:
    match config.compression_type:
        case CompressionType.PRODUCER:
            return attributes & COMPRESSION_MASK
        case CompressionType.UNCOMPRESSED:
            return Compression.NONE
        case named:
            return Compression[named.name]


def _compress_anew(records: Bytes, body: bytes, wanted: int) -> bytes:
    attributes, _, _, _, producer_id, producer_epoch, base_sequence, _ = BODY_HEADER.unpack_from(body)
    try:
        batch = build_batch(
            list(read_records(records)),
            compression=Compression(wanted),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            transactional=bool(attributes & TRANSACTIONAL_BIT),
        )
    except CorruptBatchError as error:
        raise BrokerError(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
    return batch[BODY_AT:]
