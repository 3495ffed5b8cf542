"""Control batches: one record that a broker wrote, for other brokers and for readers of transactions."""

from enum import IntEnum

from ottla.errors import CorruptBatchError
from ottla.protocol.messages.control_records import ControlRecordTypeSchema, EndTxnMarker
from ottla.protocol.records import Record, build_batch
from ottla.protocol.versioned import decode_with_version, encode_with_version


class ControlType(IntEnum):
    """What a control record says: the type in its key."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


def build_end_txn_marker(
    *,
    committed: bool,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """The batch that ends a producer's transaction in one partition."""
    kind = ControlType.COMMIT if committed else ControlType.ABORT
    record = Record(
        key=encode_with_version(ControlRecordTypeSchema(type=kind), 0),
        value=encode_with_version(EndTxnMarker(coordinator_epoch=coordinator_epoch), 0),
        timestamp_ms=timestamp_ms,
    )
    return build_batch(
        [record],
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        leader_epoch=leader_epoch,
        transactional=True,
        control=True,
    )


def control_type(record: Record) -> ControlType | None:
    """What a record of a control batch says; None for a type of the future, which readers step over."""
    number = decode_with_version(ControlRecordTypeSchema, _present(record.key, "key")).type
    return ControlType(number) if ControlType.ABORT <= number <= ControlType.KRAFT_VOTERS else None


def read_end_txn_marker(record: Record) -> EndTxnMarker:
    return decode_with_version(EndTxnMarker, _present(record.value, "value"))


def _present(content: bytes | None, name: str) -> bytes:
    if content is None:
        raise CorruptBatchError(f"a control record without a {name}")
    return content
