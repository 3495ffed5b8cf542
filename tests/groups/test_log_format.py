"""Records of groups in Kafka's format: byte for byte what Kafka writes, and all that it ever wrote can be read."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import ProtocolError
from ottla.groups.log_format import PlainRecord, decode_record, encode_record
from ottla.groups.records import (
    NEVER_EXPIRES_MS,
    GroupDeleted,
    GroupMetadata,
    MemberMetadata,
    OffsetCommitted,
    OffsetDeleted,
)
from ottla.protocol.messages import group_records as tables
from ottla.protocol.versioned import encode_with_version

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
TIMEOUTS = st.integers(0, 2**31 - 1)
TEXT = st.text(max_size=20)

members = st.builds(
    MemberMetadata,
    member_id=TEXT,
    instance_id=st.none() | TEXT,
    client_id=TEXT,
    client_host=TEXT,
    rebalance_timeout_ms=TIMEOUTS,
    session_timeout_ms=TIMEOUTS,
    subscription=st.binary(max_size=20),
    assignment=st.binary(max_size=20),
)
groups = st.builds(
    GroupMetadata,
    group_id=TEXT,
    protocol_type=st.none() | st.text(min_size=1, max_size=9),
    generation=INT32,
    protocol=st.none() | TEXT,
    leader_id=st.none() | TEXT,
    state_timestamp_ms=INT64,
    members=st.lists(members, max_size=3).map(tuple),
)
offsets = st.builds(OffsetCommitted, TEXT, TEXT, INT32, INT64, INT32, TEXT, INT64, st.just(NEVER_EXPIRES_MS))
expiring_offsets = st.builds(OffsetCommitted, TEXT, TEXT, INT32, INT64, st.just(-1), TEXT, INT64, st.integers(0, 2**62))
records = st.one_of(
    groups, offsets, expiring_offsets, st.builds(OffsetDeleted, TEXT, TEXT, INT32), st.builds(GroupDeleted, TEXT)
)


@given(records)
def test_what_is_written_is_read_back(record: PlainRecord) -> None:
    assert decode_record(*encode_record(record)) == record


def string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def test_an_offset_is_written_as_kafka_writes_it() -> None:
    key, value = encode_record(OffsetCommitted("g", "topic", 3, 42, 7, "note", 1_700_000_000_000))

    assert key == struct.pack(">h", 1) + string("g") + string("topic") + struct.pack(">i", 3)
    assert value == struct.pack(">hqi", 3, 42, 7) + string("note") + struct.pack(">q", 1_700_000_000_000)


def test_an_offset_with_a_time_to_live_is_written_in_the_one_version_that_has_it() -> None:
    _, value = encode_record(OffsetCommitted("g", "topic", 3, 42, -1, "", 1_000, 2_000))

    assert value == struct.pack(">hq", 1, 42) + string("") + struct.pack(">qq", 1_000, 2_000)


def test_a_group_is_written_as_kafka_writes_it() -> None:
    member = MemberMetadata(
        member_id="m",
        instance_id=None,
        client_id="c",
        client_host="/h",
        rebalance_timeout_ms=60_000,
        session_timeout_ms=10_000,
        subscription=b"S",
        assignment=b"AA",
    )
    key, value = encode_record(
        GroupMetadata(
            group_id="g",
            protocol_type="consumer",
            generation=5,
            protocol="range",
            leader_id="m",
            state_timestamp_ms=99,
            members=(member,),
        )
    )

    assert key == struct.pack(">h", 2) + string("g")
    assert value == (
        struct.pack(">h", 3)
        + string("consumer")
        + struct.pack(">i", 5)
        + string("range")
        + string("m")
        + struct.pack(">qi", 99, 1)
        + string("m")
        + struct.pack(">h", -1)
        + string("c")
        + string("/h")
        + struct.pack(">ii", 60_000, 10_000)
        + struct.pack(">i", 1)
        + b"S"
        + struct.pack(">i", 2)
        + b"AA"
    )


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_an_offset_is_read(version: int) -> None:
    key = encode_with_version(tables.OffsetCommitKey(group="g", topic="t", partition=1), min(version, 1))
    value = tables.OffsetCommitValue(offset=9, leader_epoch=4, metadata="n", commit_timestamp=5, expire_timestamp=6)

    record = decode_record(key, encode_with_version(value, version))

    leader_epoch = 4 if version >= 3 else -1
    assert record == OffsetCommitted("g", "t", 1, 9, leader_epoch, "n", 5, 6 if version == 1 else -1)


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_a_group_is_read(version: int) -> None:
    member = tables.MemberMetadata(
        member_id="m", group_instance_id="i", rebalance_timeout=7, session_timeout=8, subscription=b"S", assignment=b"A"
    )
    value = tables.GroupMetadataValue(
        protocol_type="consumer", generation=2, protocol=None, leader=None, current_state_timestamp=3, members=[member]
    )
    key = encode_with_version(tables.GroupMetadataKey(group="g"), 2)

    record = decode_record(key, encode_with_version(value, version))

    assert isinstance(record, GroupMetadata)
    assert (record.protocol, record.leader_id) == (None, None)
    assert record.state_timestamp_ms == (3 if version >= 2 else -1)
    assert record.members[0].instance_id == ("i" if version >= 3 else None)
    assert record.members[0].rebalance_timeout_ms == (7 if version >= 1 else 8)


def test_kinds_of_records_that_are_not_known_are_passed_over() -> None:
    assert decode_record(struct.pack(">h", 3) + string("a KIP-848 group"), b"\x00\x00") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"x"),
        (b"", None),
        (b"\x00\x01\x00\x05ab", None),
        (struct.pack(">h", 2) + string("g"), b"\x00\x09"),
        (struct.pack(">h", 2) + string("g"), b""),
        (struct.pack(">h", 2) + string("g") + b"more", None),
    ],
)
def test_bytes_that_are_not_a_record_are_refused(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(ProtocolError):
        decode_record(key, value)
