from ottla.errors import ErrorCode
from ottla.handlers.alter_partition_reassignments import alter_partition_reassignments
from ottla.handlers.list_partition_reassignments import list_partition_reassignments
from ottla.protocol.codec import encode
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from tests.handlers.admin_node import AdminNode, answered
from tests.metadata.cluster import commit, create, registration

REQUEST = AlterPartitionReassignmentsRequest(
    topics=[ReassignableTopic(name=name, partitions=[ReassignablePartition(replicas=[2])]) for name in ("a", "nope")]
)


def test_each_partition_has_an_answer_and_what_moves_is_listed() -> None:
    node = AdminNode()
    create(node.state, "a")
    commit(node.state, node.state.register_broker(registration(2)))
    answer = answered(alter_partition_reassignments(REQUEST, node.context(1)))
    assert [(topic.name, topic.partitions[0].error_code) for topic in answer.responses] == [
        ("a", ErrorCode.NONE),
        ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    encode(answer, 1)
    listed = list_partition_reassignments(ListPartitionReassignmentsRequest(topics=None), node.context(0))
    assert [(topic.name, topic.partitions[0].adding_replicas) for topic in listed.topics] == [("a", (2,))]
    encode(listed, 0)


def test_where_nothing_can_be_written_the_request_is_told_so() -> None:
    node = AdminNode()
    node.fails = True
    answer = answered(alter_partition_reassignments(REQUEST, node.context(1)))
    assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert answer.responses == ()
