import pytest

from ottla.config import BrokerConfig
from ottla.errors import ErrorCode
from ottla.handlers.delete_topics import delete_topics
from ottla.protocol.codec import encode
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.handlers.admin_node import AdminNode, answered
from tests.metadata.cluster import create


def test_topics_go_by_name_and_by_id() -> None:
    node = AdminNode()
    create(node.state, "a", "b")
    by_id = DeleteTopicState(topic_id=node.image.topics["b"].topic_id)
    answer = answered(delete_topics(DeleteTopicsRequest(topics=[DeleteTopicState(name="a"), by_id]), node.context(6)))
    assert [(t.name, t.error_code) for t in answer.responses] == [("a", 0), ("b", 0)]
    assert not node.image.topics
    encode(answer, 6)


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (DeleteTopicsRequest(topics=[DeleteTopicState(name="a")]), 6),
        (DeleteTopicsRequest(topic_names=["a"]), 1),
    ],
)
def test_where_deletion_is_switched_off_every_topic_is_told_so(request_: DeleteTopicsRequest, version: int) -> None:
    node = AdminNode(config=BrokerConfig(delete_topic_enable=False))
    create(node.state, "a")
    (answer,) = answered(delete_topics(request_, node.context(version))).responses
    assert (answer.name, answer.error_code) == ("a", ErrorCode.TOPIC_DELETION_DISABLED)
    assert "a" in node.image.topics
