"""Records of groups as bytes, in Kafka's own format, which its tools can read.

Values are written in the version that Kafka 4 writes: 3, and 1 for the rare offset that has a time to live of its own.
All versions are read, so a log may come from Kafka.
"""

from __future__ import annotations

from ottla.errors import ProtocolError
from ottla.groups.records import (
    NEVER_EXPIRES_MS,
    GroupDeleted,
    GroupMetadata,
    MemberMetadata,
    OffsetCommitted,
    OffsetDeleted,
)
from ottla.protocol.messages import group_records as tables
from ottla.protocol.versioned import decode_with_version, encode_with_version, version_of

OFFSET_KEY_VERSIONS = (0, 1)
"""The version of a key says what it is a key of. Version 0 was written before Kafka 0.9."""
OFFSET_KEY_VERSION = 1
GROUP_KEY_VERSION = 2

VALUE_VERSION = 3
VALUE_VERSION_WITH_EXPIRY = 1


PlainRecord = OffsetCommitted | OffsetDeleted | GroupMetadata | GroupDeleted
"""What a record says by itself. That an offset is pending, and how it ended, is said by its batch (`batches`)."""


def encode_record(record: PlainRecord) -> tuple[bytes, bytes | None]:
    """The key and the value; a value of None is a tombstone."""
    if isinstance(record, OffsetCommitted):
        return _offset_key(record.group_id, record.topic, record.partition), _offset_value(record)
    if isinstance(record, GroupMetadata):
        return _group_key(record.group_id), _group_value(record)
    if isinstance(record, OffsetDeleted):
        return _offset_key(record.group_id, record.topic, record.partition), None
    return _group_key(record.group_id), None


def decode_record(key: bytes | None, value: bytes | None) -> PlainRecord | None:
    """None for a kind of record that this version does not know: a newer one, or Kafka, wrote it.

    Raises ProtocolError for bytes that are not what their kind says.
    """
    if key is None:
        raise ProtocolError("a record of a group without a key")
    kind = version_of(key)
    if kind in OFFSET_KEY_VERSIONS:
        return _decode_offset(decode_with_version(tables.OffsetCommitKey, key), value)
    if kind == GROUP_KEY_VERSION:
        return _decode_group(decode_with_version(tables.GroupMetadataKey, key), value)
    return None


def _offset_key(group_id: str, topic: str, partition: int) -> bytes:
    key = tables.OffsetCommitKey(group=group_id, topic=topic, partition=partition)
    return encode_with_version(key, OFFSET_KEY_VERSION)


def _offset_value(record: OffsetCommitted) -> bytes:
    expires = record.expire_timestamp_ms != NEVER_EXPIRES_MS
    value = tables.OffsetCommitValue(
        offset=record.offset,
        leader_epoch=record.leader_epoch,
        metadata=record.metadata,
        commit_timestamp=record.commit_timestamp_ms,
        expire_timestamp=record.expire_timestamp_ms,
    )
    return encode_with_version(value, VALUE_VERSION_WITH_EXPIRY if expires else VALUE_VERSION)


def _group_key(group_id: str) -> bytes:
    return encode_with_version(tables.GroupMetadataKey(group=group_id), GROUP_KEY_VERSION)


def _group_value(record: GroupMetadata) -> bytes:
    value = tables.GroupMetadataValue(
        protocol_type=record.protocol_type or "",
        generation=record.generation,
        protocol=record.protocol,
        leader=record.leader_id,
        current_state_timestamp=record.state_timestamp_ms,
        members=[_member_value(member) for member in record.members],
    )
    return encode_with_version(value, VALUE_VERSION)


def _member_value(member: MemberMetadata) -> tables.MemberMetadata:
    return tables.MemberMetadata(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=member.subscription,
        assignment=member.assignment,
    )


def _decode_offset(key: tables.OffsetCommitKey, value: bytes | None) -> OffsetCommitted | OffsetDeleted:
    if value is None:
        return OffsetDeleted(key.group, key.topic, key.partition)
    at = decode_with_version(tables.OffsetCommitValue, value)
    return OffsetCommitted(
        key.group,
        key.topic,
        key.partition,
        at.offset,
        at.leader_epoch,
        at.metadata,
        at.commit_timestamp,
        at.expire_timestamp,
    )


def _decode_group(key: tables.GroupMetadataKey, value: bytes | None) -> GroupMetadata | GroupDeleted:
    if value is None:
        return GroupDeleted(key.group)
    group = decode_with_version(tables.GroupMetadataValue, value)
    return GroupMetadata(
        group_id=key.group,
        protocol_type=group.protocol_type or None,
        generation=group.generation,
        protocol=group.protocol,
        leader_id=group.leader,
        state_timestamp_ms=group.current_state_timestamp,
        members=tuple(_decode_member(member) for member in group.members),
    )


def _decode_member(member: tables.MemberMetadata) -> MemberMetadata:
    timeout_ms = member.rebalance_timeout
    return MemberMetadata(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=timeout_ms if timeout_ms >= 0 else member.session_timeout,
        session_timeout_ms=member.session_timeout,
        subscription=member.subscription,
        assignment=member.assignment,
    )
