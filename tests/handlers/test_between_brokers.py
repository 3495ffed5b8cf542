"""What brokers ask of the controller, and what is asked of it about brokers: the error codes are Kafka's."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.errors import BrokerError, ErrorCode
from ottla.handlers.allocate_producer_ids import allocate_producer_ids
from ottla.handlers.alter_partition import alter_partition
from ottla.handlers.broker_heartbeat import broker_heartbeat
from ottla.handlers.broker_registration import broker_registration
from ottla.handlers.elect_leaders import elect_leaders
from ottla.handlers.unregister_broker import unregister_broker
from ottla.handlers.update_features import update_features
from ottla.metadata import leadership
from ottla.metadata.features import METADATA_LEVEL, METADATA_VERSION, SUPPORTED_FEATURES
from ottla.protocol.codec import decode, encode
from ottla.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from ottla.protocol.messages.alter_partition import AlterPartitionRequest, RequestPartitionData, RequestTopicData
from ottla.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from ottla.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
    Listener,
)
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.protocol.messages.unregister_broker import UnregisterBrokerRequest
from ottla.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from ottla.services import Deferred
from tests.handlers.admin_node import DISK_FULL, AdminNode, answered
from tests.metadata.cluster import create


def registration(**fields: Any) -> BrokerRegistrationRequest:
    """As it comes off the wire."""
    values: dict[str, Any] = {
        "broker_id": 2,
        "cluster_id": AdminNode.cluster_id,
        "incarnation_id": b"i" * 16,
        "listeners": [Listener(name="PLAINTEXT", host="h", port=9, security_protocol=0)],
        "features": [
            Feature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in SUPPORTED_FEATURES.items()
        ],
        "rack": "r",
        "log_dirs": [b"d" * 16],
    }
    request = BrokerRegistrationRequest(**values | fields)
    return decode(BrokerRegistrationRequest, 4, encode(request, 4))


def register(node: AdminNode, **fields: Any) -> BrokerRegistrationResponse:
    response = broker_registration(registration(**fields), node.context(4))
    return answered(response) if isinstance(response, Deferred) else response


def test_a_broker_registers_fenced_with_what_it_says_of_itself() -> None:
    node = AdminNode()
    response = register(node)
    assert response.error_code == ErrorCode.NONE
    broker = node.image.brokers[2]
    assert (broker.broker_epoch, broker.fenced, broker.rack) == (response.broker_epoch, True, "r")
    assert (broker.endpoints[0].host, broker.endpoints[0].port, broker.log_dirs) == ("h", 9, (b"d" * 16,))
    assert broker.features == SUPPORTED_FEATURES


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"cluster_id": "another"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"listeners": []}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [b"d" * 16, b"d" * 16]}, ErrorCode.INVALID_REGISTRATION),
        ({"features": []}, ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_a_registration_is_refused(fields: dict[str, Any], code: ErrorCode) -> None:
    node = AdminNode()
    response = register(node, **fields)
    assert (response.error_code, response.broker_epoch) == (code, -1)
    assert 2 not in node.image.brokers


def test_another_process_with_the_id_of_one_in_service_is_refused() -> None:
    node = AdminNode()
    register(node)
    again = register(node, incarnation_id=b"j" * 16, log_dirs=[b"e" * 16])
    assert again.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION


def test_a_registration_that_needs_several_decisions_is_to_be_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    node = AdminNode(2)
    create(node.state, "t", partitions=4, replication_factor=2)
    monkeypatch.setattr(leadership, "SWEEP_RECORDS_MAX", 3)
    assert register(node).error_code == ErrorCode.REQUEST_TIMED_OUT
    assert register(node).error_code == ErrorCode.NONE


def test_heartbeats_let_a_broker_in() -> None:
    node = AdminNode()
    epoch = register(node).broker_epoch
    beat = BrokerHeartbeatRequest(broker_id=2, broker_epoch=epoch, current_metadata_offset=10)
    response = answered(broker_heartbeat(beat, node.context(1)))
    assert (response.error_code, response.is_caught_up, response.is_fenced) == (ErrorCode.NONE, True, False)
    assert node.image.brokers[2].is_active


def test_a_heartbeat_of_an_old_process_is_stale() -> None:
    node = AdminNode()
    beat = BrokerHeartbeatRequest(broker_id=1, broker_epoch=99)
    assert answered(broker_heartbeat(beat, node.context(1))).error_code == ErrorCode.STALE_BROKER_EPOCH


def test_a_leader_alters_its_partition() -> None:
    node = AdminNode(2)
    create(node.state, "t", replication_factor=2)
    topic = node.image.topics["t"]
    leader = topic.partitions[0].leader
    data = RequestPartitionData(partition_index=0, leader_epoch=0, partition_epoch=0, new_isr=[leader])
    request = AlterPartitionRequest(
        broker_id=leader,
        broker_epoch=node.image.brokers[leader].broker_epoch,
        topics=[RequestTopicData(topic_id=topic.topic_id, partitions=[data])],
    )
    response = answered(alter_partition(request, node.context(2)))
    assert response.topics[0].partitions[0].error_code == ErrorCode.NONE
    assert node.image.topics["t"].partitions[0].isr == (leader,)
    stale = AlterPartitionRequest(broker_id=leader, broker_epoch=99)
    assert answered(alter_partition(stale, node.context(2))).error_code == ErrorCode.STALE_BROKER_EPOCH


def test_producer_ids_are_given_in_blocks_to_the_newest_process() -> None:
    node = AdminNode()
    epoch = node.image.brokers[1].broker_epoch
    request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch)
    blocks = [answered(allocate_producer_ids(request, node.context())) for _ in range(2)]
    assert [(block.producer_id_start, block.producer_id_len) for block in blocks] == [(0, 1_000), (1_000, 1_000)]
    stale = AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch + 1)
    assert answered(allocate_producer_ids(stale, node.context())).error_code == ErrorCode.STALE_BROKER_EPOCH


def test_a_broker_is_unregistered() -> None:
    node = AdminNode(2)
    response = answered(unregister_broker(UnregisterBrokerRequest(broker_id=2), node.context()))
    assert (response.error_code, response.error_message) == (ErrorCode.NONE, None)
    assert 2 not in node.image.brokers
    again = answered(unregister_broker(UnregisterBrokerRequest(broker_id=2), node.context()))
    assert again.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
    assert again.error_message


def test_unregistering_that_needs_several_decisions_is_to_be_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    node = AdminNode(2)
    create(node.state, "t", partitions=4, replication_factor=2)
    monkeypatch.setattr(leadership, "SWEEP_RECORDS_MAX", 3)
    request = UnregisterBrokerRequest(broker_id=2)
    codes = [answered(unregister_broker(request, node.context())).error_code for _ in range(2)]
    assert codes == [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NONE]


def test_elections_are_answered_by_partition() -> None:
    node = AdminNode()
    create(node.state, "t")
    wanted = [TopicPartitions(topic="t", partitions=[0, 7]), TopicPartitions(topic="no", partitions=[0])]
    response = answered(elect_leaders(ElectLeadersRequest(topic_partitions=wanted), node.context(2)))
    codes = [result.error_code for topic in response.replica_election_results for result in topic.partition_result]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes == [ErrorCode.ELECTION_NOT_NEEDED, unknown, unknown]


def test_an_unknown_kind_of_election_is_refused_as_a_whole() -> None:
    wanted = [TopicPartitions(topic="t", partitions=[0])]
    request = ElectLeadersRequest(election_type=9, topic_partitions=wanted)
    response = answered(elect_leaders(request, AdminNode().context(2)))
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert response.replica_election_results[0].partition_result[0].error_code == ErrorCode.INVALID_REQUEST


def test_features_are_updated_all_or_none() -> None:
    node = AdminNode()
    same = UpdateFeaturesRequest(
        feature_updates=[FeatureUpdateKey(feature=METADATA_VERSION, max_version_level=METADATA_LEVEL)]
    )
    response = answered(update_features(same, node.context(1)))
    assert [result.error_code for result in response.results] == [ErrorCode.NONE]
    higher = UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey(feature=METADATA_VERSION, max_version_level=99)])
    refused = answered(update_features(higher, node.context(1)))
    assert refused.error_code == refused.results[0].error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert METADATA_VERSION in (refused.error_message or "")


@pytest.mark.parametrize(
    ("handler", "request_"),
    [
        (broker_registration, registration()),
        (broker_heartbeat, BrokerHeartbeatRequest(broker_id=1, broker_epoch=0)),
        (alter_partition, AlterPartitionRequest(broker_id=1, broker_epoch=0)),
        (allocate_producer_ids, AllocateProducerIdsRequest(broker_id=1, broker_epoch=0)),
        (unregister_broker, UnregisterBrokerRequest(broker_id=1)),
        (elect_leaders, ElectLeadersRequest()),
        (update_features, UpdateFeaturesRequest()),
    ],
)
@pytest.mark.parametrize("trouble", ["fails", "is_stopping"])
def test_what_keeps_the_controller_from_deciding_is_told(
    handler: Callable[..., Deferred[Any]], request_: Any, trouble: str
) -> None:
    node = AdminNode()
    setattr(node, trouble, True)
    assert answered(handler(request_, node.context(1))).error_code == DISK_FULL.code


def test_who_is_not_the_controller_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    node = AdminNode()

    def not_controller(_: object) -> None:
        raise BrokerError(ErrorCode.NOT_CONTROLLER)

    monkeypatch.setattr(node, "call", not_controller)
    beat = BrokerHeartbeatRequest(broker_id=1, broker_epoch=0)
    assert answered(broker_heartbeat(beat, node.context(1))).error_code == ErrorCode.NOT_CONTROLLER
