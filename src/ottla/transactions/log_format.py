"""Records of transactions as bytes, in Kafka's own format, which its tools can read.

Values are written in version 1, as Kafka does since `transaction.version` is 1 or higher; both versions are read.
"""

from __future__ import annotations

from ottla.errors import ProtocolError
from ottla.protocol.messages.transaction_records import PartitionsSchema, TransactionLogKey, TransactionLogValue
from ottla.protocol.versioned import decode_with_version, encode_with_version, version_of
from ottla.transactions.states import TransactionState
from ottla.transactions.transaction import IdForgotten, Transaction, TransactionRecord
from ottla.types import TopicPartition

KEY_VERSION = 0
VALUE_VERSION = 1


def encode_record(record: TransactionRecord) -> tuple[bytes, bytes | None]:
    """The key and the value; a value of None is a tombstone."""
    key = encode_with_version(TransactionLogKey(transactional_id=record.transactional_id), KEY_VERSION)
    return key, None if isinstance(record, IdForgotten) else _value(record)


def decode_record(key: bytes | None, value: bytes | None) -> TransactionRecord | None:
    """None for a kind of record that this version does not know.

    Raises ProtocolError for bytes that are not what their kind says.
    """
    if key is None:
        raise ProtocolError("a record of a transaction without a key")
    if version_of(key) != KEY_VERSION:
        return None
    transactional_id = decode_with_version(TransactionLogKey, key).transactional_id
    if value is None:
        return IdForgotten(transactional_id)
    return _transaction(transactional_id, decode_with_version(TransactionLogValue, value))


def _value(record: Transaction) -> bytes:
    value = TransactionLogValue(
        producer_id=record.producer_id,
        previous_producer_id=record.previous_producer_id,
        next_producer_id=record.next_producer_id,
        next_producer_epoch=record.next_producer_epoch,
        producer_epoch=record.producer_epoch,
        transaction_timeout_ms=record.timeout_ms,
        transaction_status=record.state,
        transaction_partitions=None if record.state is TransactionState.EMPTY else _topics(record.partitions),
        transaction_last_update_timestamp_ms=record.update_ms,
        transaction_start_timestamp_ms=record.start_ms,
        client_transaction_version=record.client_version,
    )
    return encode_with_version(value, VALUE_VERSION)


def _topics(partitions: frozenset[TopicPartition]) -> list[PartitionsSchema]:
    by_topic: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        by_topic.setdefault(topic, []).append(index)
    return [PartitionsSchema(topic=topic, partition_ids=indexes) for topic, indexes in by_topic.items()]


def _transaction(transactional_id: str, value: TransactionLogValue) -> Transaction:
    try:
        state = TransactionState(value.transaction_status)
    except ValueError:
        raise ProtocolError(f"transaction status {value.transaction_status} of {transactional_id!r}") from None
    return Transaction(
        transactional_id=transactional_id,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        next_producer_epoch=value.next_producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=state,
        partitions=frozenset(
            TopicPartition(topic.topic, index)
            for topic in value.transaction_partitions or ()
            for index in topic.partition_ids
        ),
        start_ms=value.transaction_start_timestamp_ms,
        update_ms=value.transaction_last_update_timestamp_ms,
        client_version=value.client_transaction_version,
    )
