"""What the metadata log holds: Kafka's KRaft records, byte for byte, so that Kafka's own tools can dump it."""

from collections.abc import Mapping
from typing import Any, cast, get_args

from ottla.errors import CorruptLogError, ProtocolError
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
from ottla.protocol.versioned import decode_metadata_record, encode_metadata_record

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

KINDS: Mapping[int, type[Any]] = {cls.api_key: cls for cls in get_args(MetadataRecord)}


def encode_record(record: MetadataRecord) -> tuple[None, bytes]:
    """The key, which metadata records do not have, and the value."""
    return None, encode_metadata_record(record, record.versions[1])


def decode_record(key: bytes | None, value: bytes | None) -> MetadataRecord:
    if key is not None or value is None:
        raise CorruptLogError("a metadata record has a value and no key")
    try:
        return cast("MetadataRecord", decode_metadata_record(KINDS, value))
    except ProtocolError as error:
        raise CorruptLogError(f"a record of the metadata log can't be read: {error}") from error
