"""What the metadata log holds: Kafka's KRaft records, byte for byte, so that Kafka's own tools can dump it.

A record has no key. Its value begins with three unsigned varints: the frame version, the record's kind and the
version of its body.
"""

from typing import Any, get_args

from ottla.errors import CorruptLogError, ProtocolError
from ottla.protocol.codec import codec_for
from ottla.protocol.messages.metadata_records import (
    BrokerRegistrationChangeRecord,
    ClientQuotaRecord,
    ConfigRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from ottla.protocol.primitives import read_uvarint, uvarint

MetadataRecord = (
    TopicRecord
    | PartitionRecord
    | PartitionChangeRecord
    | RemoveTopicRecord
    | ConfigRecord
    | ClientQuotaRecord
    | ProducerIdsRecord
    | FeatureLevelRecord
    | RegisterBrokerRecord
    | BrokerRegistrationChangeRecord
    | UnregisterBrokerRecord
)

FRAME_VERSION = 1

_BY_KEY: dict[int, type[Any]] = {cls.api_key: cls for cls in get_args(MetadataRecord)}


def encode_record(record: MetadataRecord) -> tuple[None, bytes]:
    """The key, which metadata records do not have, and the value."""
    cls = type(record)
    version = cls.versions[1]
    out: list[Any] = [bytes((FRAME_VERSION,)), uvarint(cls.api_key), uvarint(version)]
    codec_for(cls, version).encode(record, out)
    return None, b"".join(out)


def decode_record(key: bytes | None, value: bytes | None) -> MetadataRecord:
    if key is not None or value is None:
        raise CorruptLogError("a metadata record has a value and no key")
    view = memoryview(value)
    try:
        frame_version, at = read_uvarint(view, 0)
        kind, at = read_uvarint(view, at)
        version, at = read_uvarint(view, at)
        if frame_version != FRAME_VERSION or kind not in _BY_KEY:
            raise CorruptLogError(
                f"a metadata record of kind {kind} in frame version {frame_version} is not known here"
            )
        record: MetadataRecord
        record, end = codec_for(_BY_KEY[kind], version).decode(view, at)
    except (ProtocolError, IndexError) as error:
        raise CorruptLogError(f"a metadata record can't be read: {error}") from error
    if end != len(value):
        raise CorruptLogError(f"{len(value) - end} bytes follow a metadata record of kind {kind}")
    return record
