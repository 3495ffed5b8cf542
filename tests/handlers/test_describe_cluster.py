import pytest

from ottla.errors import BrokerError, ErrorCode
from ottla.handlers.describe_cluster import describe_cluster
from ottla.handlers.operations import CLUSTER_OPERATIONS
from ottla.protocol.codec import encode
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest
from ottla.protocol.messages.metadata_records import BrokerRegistrationChangeRecord
from ottla.protocol.primitives import INT32_MIN
from tests.handlers.admin_node import AdminNode


def test_the_cluster_is_its_id_its_controller_and_its_brokers() -> None:
    node = AdminNode(brokers=2)
    answer = describe_cluster(DescribeClusterRequest(), node.context())
    assert (answer.cluster_id, answer.controller_id) == ("the-cluster", 1)
    assert [(broker.broker_id, broker.host, broker.port) for broker in answer.brokers] == [
        (1, "host-1", 9092),
        (2, "host-2", 9092),
    ]
    for version in (0, 1, 2):
        encode(answer, version)


def test_fenced_brokers_are_told_of_only_when_asked_for() -> None:
    node = AdminNode(brokers=2)
    node.state.replay(BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=1, fenced=1))
    without = describe_cluster(DescribeClusterRequest(), node.context(2))
    everyone = describe_cluster(DescribeClusterRequest(include_fenced_brokers=True), node.context(2))
    assert [broker.broker_id for broker in without.brokers] == [1]
    assert [(broker.broker_id, broker.is_fenced) for broker in everyone.brokers] == [(1, False), (2, True)]


def test_operations_are_told_when_asked_for() -> None:
    context = AdminNode().context()
    asked = DescribeClusterRequest(include_cluster_authorized_operations=True)
    assert describe_cluster(asked, context).cluster_authorized_operations == CLUSTER_OPERATIONS
    assert describe_cluster(DescribeClusterRequest(), context).cluster_authorized_operations == INT32_MIN


@pytest.mark.parametrize(
    ("endpoint_type", "code"),
    [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (7, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)],
)
def test_only_brokers_can_be_asked_for(endpoint_type: int, code: ErrorCode) -> None:
    with pytest.raises(BrokerError) as caught:
        describe_cluster(DescribeClusterRequest(endpoint_type=endpoint_type), AdminNode().context(1))
    assert caught.value.code == code
