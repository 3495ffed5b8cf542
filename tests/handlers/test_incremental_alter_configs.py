from ottla.errors import ErrorCode
from ottla.handlers.incremental_alter_configs import incremental_alter_configs
from ottla.protocol.codec import encode
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.handlers.admin_node import AdminNode, answered
from tests.metadata.cluster import create

REQUEST = IncrementalAlterConfigsRequest(
    resources=[
        AlterConfigsResource(
            resource_type=2, resource_name=name, configs=[AlterableConfig(name="retention.ms", value="5")]
        )
        for name in ("a", "nope")
    ]
)


def test_each_resource_has_an_answer() -> None:
    node = AdminNode()
    create(node.state, "a", configs={"segment.ms": "7"})
    answer = answered(incremental_alter_configs(REQUEST, node.context(1)))
    assert [(r.resource_name, r.error_code) for r in answer.responses] == [
        ("a", ErrorCode.NONE),
        ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert node.image.config_of(2, "a") == {"retention.ms": "5", "segment.ms": "7"}
    encode(answer, 1)


def test_where_nothing_can_be_written_every_resource_is_told_so() -> None:
    node = AdminNode()
    node.fails = True
    answer = answered(incremental_alter_configs(REQUEST, node.context(1)))
    assert [(r.resource_name, r.error_code) for r in answer.responses] == [
        ("a", ErrorCode.KAFKA_STORAGE_ERROR),
        ("nope", ErrorCode.KAFKA_STORAGE_ERROR),
    ]
