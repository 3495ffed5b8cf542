import pytest

from ottla.errors import ProtocolError
from ottla.protocol.messages.group_records import OffsetCommitKey, OffsetCommitValue
from ottla.protocol.messages.metadata_records import PartitionRecord, TopicRecord
from ottla.protocol.versioned import (
    decode_metadata_record,
    decode_with_version,
    encode_metadata_record,
    encode_with_version,
    version_of,
)

KINDS = {cls.api_key: cls for cls in (TopicRecord, PartitionRecord)}


def test_a_key_of_the_offsets_topic_is_as_kafka_writes_it() -> None:
    key = encode_with_version(OffsetCommitKey(group="g", topic="t", partition=1), 1)

    assert key == b"\x00\x01" + b"\x00\x01g" + b"\x00\x01t" + b"\x00\x00\x00\x01"
    assert version_of(key) == 1
    assert decode_with_version(OffsetCommitKey, key) == OffsetCommitKey(group="g", topic="t", partition=1)


def test_a_version_that_we_do_not_know_is_refused() -> None:
    value = encode_with_version(OffsetCommitValue(offset=1), 3)

    with pytest.raises(ProtocolError, match="not 9"):
        decode_with_version(OffsetCommitValue, b"\x00\x09" + value[2:])
    with pytest.raises(ProtocolError, match="too few"):
        decode_with_version(OffsetCommitValue, b"\x00")


def test_a_metadata_record_is_framed_as_kafka_does() -> None:
    record = TopicRecord(name="t", topic_id=bytes(range(16)))
    encoded = encode_metadata_record(record, 0)

    assert encoded == b"\x01\x02\x00" + b"\x02t" + bytes(range(16)) + b"\x00"
    assert decode_metadata_record(KINDS, encoded) == record


@pytest.mark.parametrize(
    "encoded", [b"", b"\x01", b"\x01\x02", b"\x00\x02\x00\x01", b"\x01\x63\x00\x00", b"\x01\x02\x09"]
)
def test_a_metadata_record_that_is_not_known_is_refused(encoded: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_metadata_record(KINDS, encoded)
