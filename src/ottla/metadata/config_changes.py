"""Changes of configs: the whole set of a resource at once (AlterConfigs), or one by one (IncrementalAlterConfigs).

A resource is changed as a whole or not at all: what would be in force afterwards is checked before anything is
written.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple, TypeVar

from ottla.config import LogConfig
from ottla.errors import BrokerError, ErrorCode
from ottla.metadata.broker_configs import broker_configs, require_dynamic
from ottla.metadata.config_defs import ConfigDef, ConfigType, split_list, to_text
from ottla.metadata.config_view import resource_type_name
from ottla.metadata.deciding import Deciding, NewRecords, given_twice
from ottla.metadata.image import ConfigResource, ResourceType
from ottla.metadata.records import MetadataRecord
from ottla.metadata.topic_configs import broker_log_config, log_config, topic_configs
from ottla.metadata.topic_names import require_valid
from ottla.protocol.messages import alter_configs as legacy
from ottla.protocol.messages import incremental_alter_configs as incremental
from ottla.protocol.messages.metadata_records import ConfigRecord
from ottla.replicated import Result

R = TypeVar("R")


class Operation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Edit(NamedTuple):
    name: str
    operation: int
    value: str | None


class Change(NamedTuple):
    """What a request wants for one resource."""

    resource: ConfigResource
    edits: Sequence[Edit]
    replaces_all: bool
    """What is not named goes back to its default."""


def alter_configs(
    deciding: Deciding, request: legacy.AlterConfigsRequest
) -> Result[MetadataRecord, legacy.AlterConfigsResponse]:
    changes = [
        Change(
            ConfigResource(resource.resource_type, resource.resource_name),
            [Edit(config.name, Operation.SET, config.value) for config in resource.configs],
            replaces_all=True,
        )
        for resource in request.resources
    ]
    new, responses = _decide(deciding, changes, legacy.AlterConfigsResourceResponse)
    return Result(records=new.unless(request.validate_only), response=legacy.AlterConfigsResponse(responses=responses))


def incremental_alter_configs(
    deciding: Deciding, request: incremental.IncrementalAlterConfigsRequest
) -> Result[MetadataRecord, incremental.IncrementalAlterConfigsResponse]:
    changes = [
        Change(
            ConfigResource(resource.resource_type, resource.resource_name),
            [Edit(config.name, config.config_operation, config.value) for config in resource.configs],
            replaces_all=False,
        )
        for resource in request.resources
    ]
    new, responses = _decide(deciding, changes, incremental.AlterConfigsResourceResponse)
    return Result(
        records=new.unless(request.validate_only),
        response=incremental.IncrementalAlterConfigsResponse(responses=responses),
    )


def _decide(deciding: Deciding, changes: Sequence[Change], response: Callable[..., R]) -> tuple[NewRecords, list[R]]:
    new = NewRecords()
    twice = given_twice(change.resource for change in changes)
    responses = []
    for change in changes:
        error = _grant(deciding, change, new, is_repeated=change.resource in twice)
        responses.append(
            response(
                error_code=error.code if error else ErrorCode.NONE,
                error_message=error.message or None if error else None,
                resource_type=change.resource.type,
                resource_name=change.resource.name,
            )
        )
    return new, responses


def _grant(deciding: Deciding, change: Change, new: NewRecords, *, is_repeated: bool) -> BrokerError | None:
    """Add the records of a change, or say why not."""
    try:
        if is_repeated:
            raise BrokerError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
        _require_well_formed(change.edits)
        table = _table_for(deciding, change.resource)
        before = deciding.image.configs.get(change.resource, {})
        after = table.edited({} if change.replaces_all else before, change.edits)
        table.require_valid(after)
        records = list(_difference(change.resource, before, after))
        new.require_room(len(records))
    except BrokerError as error:
        return error
    new.add(records)
    return None


def _require_well_formed(edits: Sequence[Edit]) -> None:
    if given_twice(edit.name for edit in edits):
        raise BrokerError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    without_value = [edit.name for edit in edits if edit.value is None and edit.operation != Operation.DELETE]
    if without_value:
        raise BrokerError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(without_value)}")
    for edit in edits:
        if not Operation.SET <= edit.operation <= Operation.SUBTRACT:
            raise BrokerError(ErrorCode.INVALID_REQUEST, f"Unknown operations type {edit.operation}")


def _difference(
    resource: ConfigResource, before: Mapping[str, str], after: Mapping[str, str]
) -> Iterator[ConfigRecord]:
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            yield ConfigRecord(
                resource_type=resource.type, resource_name=resource.name, name=name, value=after.get(name)
            )


class _Table(NamedTuple):
    """What can be configured on a kind of resource."""

    definitions: Mapping[str, ConfigDef]
    base: LogConfig
    """What holds where the resource itself sets nothing: what APPEND and SUBTRACT start from."""
    require_valid: Callable[[Mapping[str, str]], object]

    def edited(self, values: Mapping[str, str], edits: Sequence[Edit]) -> dict[str, str]:
        after = dict(values)
        for edit in edits:
            if edit.operation == Operation.DELETE:
                after.pop(edit.name, None)
            elif edit.operation == Operation.SET:
                after[edit.name] = edit.value or ""
            else:
                after[edit.name] = ",".join(self._edited_list(after.get(edit.name), edit))
        return after

    def _edited_list(self, current: str | None, edit: Edit) -> list[str]:
        definition = self.definitions.get(edit.name)
        if definition is None or definition.type is not ConfigType.LIST:
            verb = "append to" if edit.operation == Operation.APPEND else "subtract from"
            raise BrokerError(ErrorCode.INVALID_CONFIG, f"Can't {verb} config {edit.name}: its type is not LIST.")
        if current is None:
            current = to_text(getattr(self.base, definition.setting.field.name)) or ""
        given, present = split_list(edit.value or ""), split_list(current)
        if edit.operation == Operation.APPEND:
            return [*present, *(part for part in given if part not in present)]
        return [part for part in present if part not in given]


def _table_for(deciding: Deciding, resource: ConfigResource) -> _Table:
    """INVALID_REQUEST for what can't be configured here, another error for what is not there."""
    match resource.type:
        case ResourceType.TOPIC:
            return _topic_table(deciding, resource.name)
        case ResourceType.BROKER:
            return _broker_table(deciding, resource.name)
        case other:
            raise BrokerError(
                ErrorCode.INVALID_REQUEST, f"Configs of type {resource_type_name(other)} can't be changed here."
            )


def _topic_table(deciding: Deciding, name: str) -> _Table:
    if not name:
        raise BrokerError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    require_valid(name)
    if name not in deciding.image.topics:
        raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{name}'.")
    base = broker_log_config(deciding.config, deciding.image)
    definitions = {name: config.topic for name, config in topic_configs().items()}
    return _Table(definitions, base, lambda values: log_config(base, values))


def _broker_table(deciding: Deciding, name: str) -> _Table:
    """The empty name stands for all brokers."""
    if name and not name.isdecimal():
        raise BrokerError(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
    if name and int(name) not in deciding.image.brokers:
        raise BrokerError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"There is no broker {name}.")
    config = deciding.config
    return _Table(broker_configs(), config.log, lambda values: require_dynamic(config, values, for_all=not name))
