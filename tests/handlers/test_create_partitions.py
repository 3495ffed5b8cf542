from ottla.errors import ErrorCode
from ottla.handlers.create_partitions import create_partitions
from ottla.protocol.codec import encode
from ottla.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from tests.handlers.admin_node import AdminNode, answered
from tests.metadata.cluster import create

REQUEST = CreatePartitionsRequest(
    topics=[CreatePartitionsTopic(name=name, count=4, assignments=None) for name in ("a", "nope")]
)


def test_each_topic_has_an_answer() -> None:
    node = AdminNode()
    create(node.state, "a")
    answer = answered(create_partitions(REQUEST, node.context(3)))
    assert [(t.name, t.error_code) for t in answer.results] == [
        ("a", ErrorCode.NONE),
        ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert len(node.image.topics["a"].partitions) == 4
    encode(answer, 3)


def test_where_nothing_can_be_written_every_topic_is_told_so() -> None:
    node = AdminNode()
    node.fails = True
    answer = answered(create_partitions(REQUEST, node.context(3)))
    assert [t.error_code for t in answer.results] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
