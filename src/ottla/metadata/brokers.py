"""Brokers make themselves known and leave for good; and the cluster begins with the first of them.

A process that starts registers with a new incarnation and gets a broker epoch higher than any before, which names it
from then on: whatever an earlier process of the same broker still says is refused. Until it asks to be let in
(`heartbeats`) it is fenced, and leads nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ottla.errors import BrokerError, ErrorCode
from ottla.metadata import balancer, leadership
from ottla.metadata.deciding import Deciding
from ottla.metadata.features import SUPPORTED_FEATURES
from ottla.metadata.image import BrokerImage, Endpoint, MetadataImage
from ottla.metadata.records import MetadataRecord
from ottla.metadata.sessions import Sessions
from ottla.metadata.snapshot import registration_record
from ottla.protocol.messages.metadata_records import FeatureLevelRecord, UnregisterBrokerRecord
from ottla.replicated import Result


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistration:
    """What a broker says of itself when it starts."""

    broker_id: int
    incarnation_id: bytes
    """New with every start of the process: tells a restart from a repeated request."""
    endpoints: Sequence[Endpoint]
    """Where clients reach it comes first."""
    rack: str | None = None
    fenced: bool = False
    """False: a node that is a cluster by itself comes into service with its registration, and sends no heartbeats
    unless it wants to."""
    log_dirs: Sequence[bytes] = ()
    """The ids of its data directories. One is locked by the process that has it, so the same ones mean the same data,
    and that the process before it is gone; other ones, that the data is gone."""
    features: Mapping[str, tuple[int, int]] = field(default_factory=lambda: SUPPORTED_FEATURES)


UNFINISHED = -1
"""Instead of an epoch: the broker has more partitions than one decision may change. Some were, it must ask again."""


def register_broker(
    deciding: Deciding, sessions: Sessions, registration: BrokerRegistration, now_ms: int, offset: int
) -> Result[MetadataRecord, int]:
    """Answers with the broker's epoch: a new one for a new incarnation, the same for a request that is repeated.

    `offset` is where the records will be in the metadata log.
    """
    image = deciding.image
    present = image.brokers.get(registration.broker_id)
    _require_sound(registration, image)
    if present is not None and present.incarnation_id == registration.incarnation_id:
        return _amended(registration, present)
    if present is not None and _is_another(registration, present, sessions, now_ms):
        raise BrokerError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            f"Another broker with the id {registration.broker_id} is in service, with other data.",
        )
    moves = _let_go(deciding, registration, present)
    if not leadership.is_whole(moves):
        return Result(records=moves, response=UNFINISHED)
    sessions.end(registration.broker_id)
    if registration.fenced:
        sessions.registered(registration.broker_id, now_ms, offset)
    epoch = image.next_broker_epoch
    record = registration_record(_broker_image(registration, epoch))
    marks = balancer.joined(deciding.config, image, registration.broker_id)
    return Result(records=[*_missing_features(image), *moves, record, *marks], response=epoch)


def _is_another(registration: BrokerRegistration, present: BrokerImage, sessions: Sessions, now_ms: int) -> bool:
    """Two processes with one id: the one that is in service keeps it. A restarted one has the data of the first."""
    return not _has_same_data(registration, present) and sessions.is_open(present.broker_id, now_ms)


def _has_same_data(registration: BrokerRegistration, present: BrokerImage) -> bool:
    return set(present.log_dirs) <= set(registration.log_dirs)


def _let_go(deciding: Deciding, registration: BrokerRegistration, present: BrokerImage | None) -> list[MetadataRecord]:
    """The process before this one leads nothing any more, nor is it in sync: this one may have to catch up.

    A broker that nobody knew, or whose data is gone, has nothing of what it once had.
    """
    if present is None or not _has_same_data(registration, present):
        return leadership.without_data(deciding, registration.broker_id)
    return leadership.without(deciding, [registration.broker_id])


def _amended(registration: BrokerRegistration, present: BrokerImage) -> Result[MetadataRecord, int]:
    """The same process says something else of itself, or the same again."""
    after = replace(
        _broker_image(registration, present.broker_epoch),
        fenced=present.fenced,
        in_controlled_shutdown=present.in_controlled_shutdown,
    )
    records = [] if after == present else [registration_record(after)]
    return Result(records=records, response=present.broker_epoch)


def _require_sound(registration: BrokerRegistration, image: MetadataImage) -> None:
    if not registration.endpoints:
        raise BrokerError(ErrorCode.INVALID_REGISTRATION, "The broker names no endpoint.")
    _require_directories(registration, image)
    for name, level in image.features.finalized.items():
        low, high = registration.features.get(name, (0, 0))
        if not low <= level <= high:
            raise BrokerError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"The cluster uses {name} at level {level}, the broker supports {low} to {high}.",
            )


def _require_directories(registration: BrokerRegistration, image: MetadataImage) -> None:
    if len(set(registration.log_dirs)) != len(registration.log_dirs):
        raise BrokerError(ErrorCode.INVALID_REGISTRATION, "The broker names a data directory twice.")
    for other in image.brokers.values():
        if other.broker_id != registration.broker_id and not set(other.log_dirs).isdisjoint(registration.log_dirs):
            raise BrokerError(
                ErrorCode.INVALID_REGISTRATION,
                f"A data directory of this broker is registered by broker {other.broker_id}: is it a copy?",
            )


def _missing_features(image: MetadataImage) -> Sequence[MetadataRecord]:
    """A cluster begins with all features; later, only those come by themselves that can't be switched off."""
    begins = not image.features.finalized
    return [
        FeatureLevelRecord(name=name, feature_level=highest)
        for name, (lowest, highest) in SUPPORTED_FEATURES.items()
        if name not in image.features.finalized and (begins or lowest > 0)
    ]


def _broker_image(registration: BrokerRegistration, epoch: int) -> BrokerImage:
    return BrokerImage(
        broker_id=registration.broker_id,
        broker_epoch=epoch,
        incarnation_id=registration.incarnation_id,
        endpoints=tuple(registration.endpoints),
        rack=registration.rack,
        fenced=registration.fenced,
        features=dict(registration.features),
        log_dirs=tuple(registration.log_dirs),
    )


def require_epoch(image: MetadataImage, broker_id: int, broker_epoch: int) -> BrokerImage:
    """The broker, if it is the process that registered last. STALE_BROKER_EPOCH tells it to register anew."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise BrokerError(ErrorCode.STALE_BROKER_EPOCH, f"There is no broker {broker_id}.")
    if broker.broker_epoch != broker_epoch:
        raise BrokerError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"Broker {broker_id} has the epoch {broker.broker_epoch} now, not {broker_epoch}.",
        )
    return broker


def unregister_broker(deciding: Deciding, broker_id: int) -> Result[MetadataRecord, bool]:
    """Answers whether all is done; if not, the request must be repeated, as there is more than fits one decision."""
    broker = deciding.image.brokers.get(broker_id)
    if broker is None:
        raise BrokerError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {broker_id} is not currently registered")
    moves = leadership.without_data(deciding, broker_id)
    if not leadership.is_whole(moves):
        return Result(records=moves, response=False)
    record = UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker.broker_epoch)
    return Result(records=[*moves, record, *balancer.left(deciding.image, broker_id)], response=True)
