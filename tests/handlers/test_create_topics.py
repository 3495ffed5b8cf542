import pytest

from ottla.errors import ErrorCode
from ottla.handlers.create_topics import create_topics
from ottla.protocol.codec import decode, encode
from ottla.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from ottla.types import NO_TOPIC_ID
from tests.handlers.admin_node import AdminNode, answered
from tests.metadata.cluster import topic

REQUEST = CreateTopicsRequest(topics=[topic("a", 3), topic("b/b")])


def test_each_topic_has_an_answer() -> None:
    node = AdminNode()
    answer = answered(create_topics(REQUEST, node.context()))
    assert [(t.name, t.error_code) for t in answer.topics] == [("a", 0), ("b/b", ErrorCode.INVALID_TOPIC_EXCEPTION)]
    assert len(node.image.topics["a"].partitions) == 3


@pytest.mark.parametrize(
    ("version", "has_id", "has_numbers"), [(2, False, False), (4, False, False), (5, False, True), (7, True, True)]
)
def test_newer_versions_tell_more_of_the_new_topic(version: int, has_id: bool, has_numbers: bool) -> None:
    sent = encode(answered(create_topics(REQUEST, AdminNode().context(version))), version)
    created, refused = decode(CreateTopicsResponse, version, sent).topics
    assert (created.topic_id != NO_TOPIC_ID) is has_id
    assert (created.num_partitions, created.replication_factor) == ((3, 1) if has_numbers else (-1, -1))
    assert bool(created.configs) is has_numbers
    assert refused.error_message


@pytest.mark.parametrize("version", [2, 7])
def test_where_nothing_can_be_written_every_topic_is_told_so(version: int) -> None:
    node = AdminNode()
    node.fails = True
    answer = answered(create_topics(REQUEST, node.context(version)))
    assert [(t.name, t.error_code) for t in answer.topics] == [(name, 56) for name in ("a", "b/b")]
    encode(answer, version)
