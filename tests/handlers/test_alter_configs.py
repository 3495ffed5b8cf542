from ottla.errors import ErrorCode
from ottla.handlers.alter_configs import alter_configs
from ottla.protocol.codec import encode
from ottla.protocol.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from tests.handlers.admin_node import AdminNode, answered
from tests.metadata.cluster import create

REQUEST = AlterConfigsRequest(
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
    answer = answered(alter_configs(REQUEST, node.context(2)))
    assert [(r.resource_name, r.error_code) for r in answer.responses] == [
        ("a", ErrorCode.NONE),
        ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert node.image.config_of(2, "a") == {"retention.ms": "5"}
    encode(answer, 2)


def test_where_nothing_can_be_written_every_resource_is_told_so() -> None:
    node = AdminNode()
    node.fails = True
    answer = answered(alter_configs(REQUEST, node.context(2)))
    assert [(r.resource_type, r.resource_name, r.error_code) for r in answer.responses] == [
        (2, "a", ErrorCode.KAFKA_STORAGE_ERROR),
        (2, "nope", ErrorCode.KAFKA_STORAGE_ERROR),
    ]
