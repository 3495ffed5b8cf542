"""Client quotas as administrators set and see them. How a quota is chosen and enforced: `ottla.metadata.quotas`."""

from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from typing import NoReturn

from ottla.errors import BrokerError, ErrorCode
from ottla.metadata.deciding import Deciding, NewRecords, given_twice
from ottla.metadata.image import MetadataImage, QuotaEntity, quota_entity
from ottla.metadata.quotas import CLIENT_ID, ENFORCED, IP, USER
from ottla.metadata.records import MetadataRecord
from ottla.protocol.messages import alter_client_quotas as alter
from ottla.protocol.messages import describe_client_quotas as describe
from ottla.protocol.messages import metadata_records
from ottla.replicated import Result

ENTITY_TYPES = frozenset({USER, CLIENT_ID, IP})


class MatchType(IntEnum):
    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2


def alter_client_quotas(
    deciding: Deciding, request: alter.AlterClientQuotasRequest
) -> Result[MetadataRecord, alter.AlterClientQuotasResponse]:
    new = NewRecords()
    twice = given_twice(_entity_of(entry) for entry in request.entries)
    entries = [_alter(deciding, entry, new, is_repeated=_entity_of(entry) in twice) for entry in request.entries]
    return Result(records=new.unless(request.validate_only), response=alter.AlterClientQuotasResponse(entries=entries))


def _entity_of(entry: alter.RequestEntryData) -> QuotaEntity:
    return quota_entity((part.entity_type, part.entity_name) for part in entry.entity)


def _alter(
    deciding: Deciding, entry: alter.RequestEntryData, new: NewRecords, *, is_repeated: bool
) -> alter.ResponseEntryData:
    try:
        if is_repeated:
            raise BrokerError(ErrorCode.INVALID_REQUEST, "The same quota entity is named more than once.")
        entity = _entity_of(entry)
        _require_valid_entity(entity)
        records = list(_records(deciding.image.client_quotas.get(entity, {}), entity, entry.ops))
        new.require_room(len(records))
    except BrokerError as error:
        return alter.ResponseEntryData(error_code=error.code, error_message=error.message, entity=entry.entity)
    new.add(records)
    return alter.ResponseEntryData(error_message=None, entity=entry.entity)


def _require_valid_entity(entity: QuotaEntity) -> None:
    types = [entity_type for entity_type, _ in entity]
    if not types:
        _refuse("Invalid empty client quota entity")
    for entity_type in types:
        if entity_type not in ENTITY_TYPES:
            _refuse(f"Unhandled client quota entity type: {entity_type}")
    if len(set(types)) != len(types):
        _refuse("Invalid client quota entity, the same type is given twice")
    if IP in types and len(types) > 1:
        _refuse("Invalid quota entity combination, an IP can't be combined with a user or client-id")
    for entity_type, name in entity:
        if name == "":
            _refuse(f"The {entity_type} of a quota entity has no name; null stands for the default")


def _records(
    present: Mapping[str, float], entity: QuotaEntity, operations: Sequence[alter.OpData]
) -> Iterator[metadata_records.ClientQuotaRecord]:
    if given_twice(operation.key for operation in operations):
        _refuse("A quota is given twice for the same entity")
    parts = [metadata_records.EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
    for operation in operations:
        if not operation.remove:
            _require_valid_quota(entity, operation.key, operation.value)
        after = None if operation.remove else operation.value
        if present.get(operation.key) != after:
            yield metadata_records.ClientQuotaRecord(
                entity=parts, key=operation.key, value=after or 0.0, remove=operation.remove
            )


def _require_valid_quota(entity: QuotaEntity, key: str, value: float) -> None:
    if key not in ENFORCED or entity[0][0] == IP:
        _refuse(
            f"Invalid configuration key {key}: what can be limited is {' and '.join(sorted(ENFORCED))} of users "
            "and client-ids"
        )
    if not 0 < value < float("inf"):
        _refuse(f"Quota {key} must be greater than 0")
    if value % 1 > 1e-6:
        _refuse(f"{key} cannot be a fractional value.")


def describe_client_quotas(
    request: describe.DescribeClientQuotasRequest, image: MetadataImage
) -> describe.DescribeClientQuotasResponse:
    """The quotas of all entities that the filter lets through."""
    _require_valid_filter(request.components)
    entries = [
        _entry(entity, quotas)
        for entity, quotas in image.client_quotas.items()
        if _matches(dict(entity), request.components, strict=request.strict)
    ]
    return describe.DescribeClientQuotasResponse(error_message=None, entries=entries)


def _require_valid_filter(components: Sequence[describe.ComponentData]) -> None:
    types = [component.entity_type for component in components]
    for component in components:
        if not component.entity_type:
            _refuse("Invalid empty entity type.")
        if component.entity_type not in ENTITY_TYPES:
            raise BrokerError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {component.entity_type}")
        if not MatchType.EXACT <= component.match_type <= MatchType.SPECIFIED:
            _refuse(f"Unknown match type {component.match_type}")
        if (component.match_type == MatchType.EXACT) != (component.match is not None):
            _refuse("A name goes with an exact match, and with no other")
    if len(set(types)) != len(types):
        _refuse("An entity type cannot appear more than once in the filter.")
    if IP in types and len(types) > 1:
        _refuse("An IP filter can't be combined with a user or client-id filter")


def _matches(entity: Mapping[str, str | None], components: Sequence[describe.ComponentData], *, strict: bool) -> bool:
    """`strict`: the entity has no type that the filter does not name."""
    if strict and len(entity) != len(components):
        return False
    return all(
        component.entity_type in entity
        and (component.match_type == MatchType.SPECIFIED or entity[component.entity_type] == component.match)
        for component in components
    )


def _entry(entity: QuotaEntity, quotas: Mapping[str, float]) -> describe.EntryData:
    return describe.EntryData(
        entity=[describe.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        values=[describe.ValueData(key=key, value=value) for key, value in quotas.items()],
    )


def _refuse(message: str) -> NoReturn:
    raise BrokerError(ErrorCode.INVALID_REQUEST, message)
