from collections.abc import Mapping, Sequence

import pytest

from ottla.errors import ErrorCode
from ottla.metadata.config_changes import Operation
from ottla.metadata.controller import Controller
from ottla.metadata.image import ResourceType
from ottla.protocol.messages import alter_configs as legacy
from ottla.protocol.messages import incremental_alter_configs as incremental
from tests.metadata.cluster import a_controller, commit, create

SET, DELETE, APPEND, SUBTRACT = Operation.SET, Operation.DELETE, Operation.APPEND, Operation.SUBTRACT
Edit = tuple[int, str, str | None]


@pytest.fixture
def controller() -> Controller:
    controller = a_controller()
    create(controller, "t", configs={"retention.ms": "1", "segment.ms": "2"})
    return controller


def change(
    controller: Controller,
    *edits: Edit,
    type_: int = ResourceType.TOPIC,
    name: str = "t",
    validate_only: bool = False,
) -> tuple[int, str | None]:
    resource = incremental.AlterConfigsResource(
        resource_type=type_,
        resource_name=name,
        configs=[
            incremental.AlterableConfig(config_operation=operation, name=config, value=value)
            for operation, config, value in edits
        ],
    )
    request = incremental.IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    (response,) = commit(controller, controller.incremental_alter_configs(request)).responses
    assert (response.resource_type, response.resource_name) == (type_, name)
    return response.error_code, response.error_message


def replace(
    controller: Controller, configs: Mapping[str, str | None], *, type_: int = ResourceType.TOPIC, name: str = "t"
) -> tuple[int, str | None]:
    resource = legacy.AlterConfigsResource(
        resource_type=type_,
        resource_name=name,
        configs=[legacy.AlterableConfig(name=config, value=value) for config, value in configs.items()],
    )
    (response,) = commit(
        controller, controller.alter_configs(legacy.AlterConfigsRequest(resources=[resource]))
    ).responses
    return response.error_code, response.error_message


def of_topic(controller: Controller, name: str = "t") -> Mapping[str, str]:
    return controller.image.config_of(ResourceType.TOPIC, name)


def test_single_configs_are_set_and_removed(controller: Controller) -> None:
    assert change(controller, (SET, "flush.ms", "3"), (DELETE, "segment.ms", None)) == (ErrorCode.NONE, None)
    assert of_topic(controller) == {"retention.ms": "1", "flush.ms": "3"}


def test_replacing_sets_back_what_is_not_named(controller: Controller) -> None:
    assert replace(controller, {"retention.ms": "9"}) == (ErrorCode.NONE, None)
    assert of_topic(controller) == {"retention.ms": "9"}
    assert replace(controller, {}) == (ErrorCode.NONE, None)
    assert of_topic(controller) == {}


def test_a_change_that_changes_nothing_writes_nothing(controller: Controller) -> None:
    before = controller.image
    assert change(controller, (SET, "retention.ms", "1"), (DELETE, "flush.ms", None)) == (ErrorCode.NONE, None)
    assert controller.image is before


@pytest.mark.parametrize(
    ("edits", "after"),
    [
        ([(APPEND, "compact")], "delete,compact"),
        ([(APPEND, "compact,delete")], "delete,compact"),
        ([(APPEND, "compact"), (SUBTRACT, "delete")], "compact"),
    ],
)
def test_lists_are_appended_to_and_subtracted_from_starting_with_what_is_in_force(
    controller: Controller, edits: list[tuple[int, str]], after: str
) -> None:
    for operation, value in edits:
        assert change(controller, (operation, "cleanup.policy", value)) == (ErrorCode.NONE, None)
    assert of_topic(controller)["cleanup.policy"] == after


@pytest.mark.parametrize(
    ("edits", "code", "message"),
    [
        ([(SET, "no.such", "1")], ErrorCode.INVALID_CONFIG, "Unknown topic config name: no.such"),
        ([(SET, "flush.ms", "-1")], ErrorCode.INVALID_CONFIG, "at least 0"),
        ([(SET, "flush.ms", "5"), (SET, "retention.ms", "x")], ErrorCode.INVALID_CONFIG, "Not a number"),
        ([(SET, "flush.ms", None)], ErrorCode.INVALID_REQUEST, "Null value"),
        ([(SET, "flush.ms", "1"), (DELETE, "flush.ms", None)], ErrorCode.INVALID_REQUEST, "duplicate"),
        ([(APPEND, "flush.ms", "1")], ErrorCode.INVALID_CONFIG, "not LIST"),
        ([(SUBTRACT, "cleanup.policy", "delete")], ErrorCode.INVALID_CONFIG, "cleanup_policy"),
        ([(7, "flush.ms", "1")], ErrorCode.INVALID_REQUEST, "Unknown operations type 7"),
        (
            [(SET, "min.compaction.lag.ms", "2"), (SET, "max.compaction.lag.ms", "1")],
            ErrorCode.INVALID_CONFIG,
            "min_compaction_lag_ms",
        ),
    ],
)
def test_a_resource_is_changed_as_a_whole_or_not_at_all(
    controller: Controller, edits: Sequence[Edit], code: ErrorCode, message: str
) -> None:
    before = controller.image
    error_code, error_message = change(controller, *edits)
    assert error_code == code
    assert message in (error_message or "")
    assert controller.image is before


@pytest.mark.parametrize(
    ("type_", "name", "code"),
    [
        (ResourceType.TOPIC, "nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ResourceType.TOPIC, "", ErrorCode.INVALID_REQUEST),
        (ResourceType.TOPIC, "a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (ResourceType.BROKER, "9", ErrorCode.BROKER_ID_NOT_REGISTERED),
        (ResourceType.BROKER, "one", ErrorCode.INVALID_REQUEST),
        (ResourceType.GROUP, "g", ErrorCode.INVALID_REQUEST),
        (ResourceType.CLIENT_METRICS, "m", ErrorCode.INVALID_REQUEST),
        (ResourceType.BROKER_LOGGER, "1", ErrorCode.INVALID_REQUEST),
        (77, "x", ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_can_not_be_configured_is_refused(controller: Controller, type_: int, name: str, code: ErrorCode) -> None:
    assert change(controller, (SET, "retention.ms", "5"), type_=type_, name=name)[0] == code
    assert replace(controller, {"retention.ms": "5"}, type_=type_, name=name)[0] == code


@pytest.mark.parametrize("name", ["", "1"])
def test_brokers_are_changed_all_at_once_or_one_by_one(controller: Controller, name: str) -> None:
    result = change(controller, (SET, "log.retention.ms", "5"), type_=ResourceType.BROKER, name=name)
    assert result == (ErrorCode.NONE, None)
    assert controller.image.config_of(ResourceType.BROKER, name) == {"log.retention.ms": "5"}


def test_what_a_broker_was_started_with_can_not_be_changed(controller: Controller) -> None:
    code, message = change(controller, (SET, "num.partitions", "5"), type_=ResourceType.BROKER, name="")
    assert (code, message) == (ErrorCode.INVALID_CONFIG, "Cannot update this config dynamically: num.partitions")


def test_a_value_is_required_when_everything_is_replaced(controller: Controller) -> None:
    assert replace(controller, {"retention.ms": None})[0] == ErrorCode.INVALID_REQUEST


def test_a_change_can_be_tried_out(controller: Controller) -> None:
    before = controller.image
    assert change(controller, (SET, "flush.ms", "5"), validate_only=True) == (ErrorCode.NONE, None)
    assert change(controller, (SET, "flush.ms", "x"), validate_only=True)[0] == ErrorCode.INVALID_CONFIG
    assert controller.image is before


def test_a_resource_named_twice_is_not_changed(controller: Controller) -> None:
    resources = [
        incremental.AlterConfigsResource(
            resource_type=ResourceType.TOPIC,
            resource_name="t",
            configs=[incremental.AlterableConfig(name=name, value="5")],
        )
        for name in ("flush.ms", "retention.ms")
    ]
    request = incremental.IncrementalAlterConfigsRequest(resources=resources)
    responses = commit(controller, controller.incremental_alter_configs(request)).responses
    assert [response.error_code for response in responses] == [ErrorCode.INVALID_REQUEST] * 2
    assert of_topic(controller) == {"retention.ms": "1", "segment.ms": "2"}


def test_one_bad_resource_does_not_keep_the_others_from_being_changed(controller: Controller) -> None:
    resources = [
        incremental.AlterConfigsResource(
            resource_type=ResourceType.TOPIC,
            resource_name=name,
            configs=[incremental.AlterableConfig(name="flush.ms", value="5")],
        )
        for name in ("nope", "t")
    ]
    request = incremental.IncrementalAlterConfigsRequest(resources=resources)
    responses = commit(controller, controller.incremental_alter_configs(request)).responses
    assert [response.error_code for response in responses] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NONE]
    assert of_topic(controller)["flush.ms"] == "5"
