"""Records of groups as the batches of a log: which offsets are pending, and how they ended, is said by the batch.

Offsets of a transaction are in a batch that names its producer, and a control batch says how the transaction ended.
Everything else is in plain batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from ottla.errors import ProtocolError, broken
from ottla.groups.log_format import PlainRecord, decode_record, encode_record
from ottla.groups.records import GroupRecord, OffsetCommitted, OffsetPending, TransactionEnded
from ottla.protocol.control import ControlType, build_end_txn_marker, control_type, read_end_txn_marker
from ottla.protocol.records import NO_PRODUCER_ID, BatchHeader, Record, build_batch

NO_EPOCH = -1


def to_batches(records: Sequence[GroupRecord], now_ms: int) -> list[bytes]:
    """In the order of the records."""
    if isinstance(records[0], TransactionEnded):
        return [_marker(ended, now_ms) for ended in records if isinstance(ended, TransactionEnded)]
    return [_batch(producer, list(some), now_ms) for producer, some in groupby(records, _producer)]


def from_batch(batch: BatchHeader, record: Record) -> GroupRecord | None:
    """None for a record that this version does not know. Raises ProtocolError for one that can't be read."""
    if batch.is_control:
        return _ended(batch, record)
    decoded = decode_record(record.key, record.value)
    if not batch.is_transactional or decoded is None:
        return decoded
    if not isinstance(decoded, OffsetCommitted):
        raise ProtocolError("something else than an offset in a transaction")
    return OffsetPending(batch.producer_id, batch.producer_epoch, decoded)


def _producer(record: GroupRecord) -> tuple[int, int]:
    if isinstance(record, OffsetPending):
        return record.producer_id, record.producer_epoch
    return NO_PRODUCER_ID, NO_EPOCH


def _batch(producer: tuple[int, int], records: Sequence[GroupRecord], now_ms: int) -> bytes:
    pairs = [encode_record(_plain(record)) for record in records]
    producer_id, producer_epoch = producer
    return build_batch(
        [
            Record(offset=i, timestamp_ms=now_ms, key=key, value=value, headers=())
            for i, (key, value) in enumerate(pairs)
        ],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=producer_id != NO_PRODUCER_ID,
    )


def _plain(record: GroupRecord) -> PlainRecord:
    if isinstance(record, OffsetPending):
        return record.offset
    if isinstance(record, TransactionEnded):
        broken("a marker is a batch of its own")
    return record


def _marker(ended: TransactionEnded, now_ms: int) -> bytes:
    return build_end_txn_marker(
        committed=ended.commits,
        producer_id=ended.producer_id,
        producer_epoch=ended.producer_epoch,
        coordinator_epoch=ended.coordinator_epoch,
        timestamp_ms=now_ms,
    )


def _ended(batch: BatchHeader, record: Record) -> TransactionEnded | None:
    kind = control_type(record)
    if kind not in (ControlType.COMMIT, ControlType.ABORT):
        return None
    return TransactionEnded(
        batch.producer_id,
        batch.producer_epoch,
        kind is ControlType.COMMIT,
        read_end_txn_marker(record).coordinator_epoch,
    )
