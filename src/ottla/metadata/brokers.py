"""Brokers make themselves known, and the cluster begins."""

from collections.abc import Sequence
from dataclasses import dataclass

from ottla.metadata.deciding import Deciding
from ottla.metadata.features import SUPPORTED_FEATURES
from ottla.metadata.image import Endpoint, MetadataImage
from ottla.metadata.records import MetadataRecord
from ottla.protocol.messages.metadata_records import (
    BrokerEndpoint,
    BrokerFeature,
    FeatureLevelRecord,
    RegisterBrokerRecord,
)
from ottla.replicated import Result


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistration:
    """What a broker says of itself when it starts."""

    broker_id: int
    incarnation_id: bytes
    """New with every start of the process: tells a restart from a repeated request."""
    endpoints: Sequence[Endpoint]
    rack: str | None = None
    fenced: bool = False
    log_dirs: Sequence[bytes] = ()


def register_broker(deciding: Deciding, registration: BrokerRegistration) -> Result[MetadataRecord, int]:
    """Answers with the broker's epoch: a new one for a new incarnation, the same for a request that is repeated.

    The first registration also writes the levels of the features, since a cluster begins with it.
    """
    image = deciding.image
    present = image.brokers.get(registration.broker_id)
    if present is not None and present.incarnation_id == registration.incarnation_id:
        return Result(response=present.broker_epoch)
    epoch = image.next_broker_epoch
    return Result(records=[*_missing_features(image), _record(registration, epoch)], response=epoch)


def _missing_features(image: MetadataImage) -> Sequence[MetadataRecord]:
    return [
        FeatureLevelRecord(name=name, feature_level=highest)
        for name, (_, highest) in SUPPORTED_FEATURES.items()
        if name not in image.features.finalized
    ]


def _record(registration: BrokerRegistration, epoch: int) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=registration.broker_id,
        incarnation_id=registration.incarnation_id,
        broker_epoch=epoch,
        end_points=[
            BrokerEndpoint(name=name, host=host, port=port, security_protocol=security)
            for name, host, port, security in registration.endpoints
        ],
        features=[
            BrokerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in SUPPORTED_FEATURES.items()
        ],
        rack=registration.rack,
        fenced=registration.fenced,
        log_dirs=registration.log_dirs,
    )
