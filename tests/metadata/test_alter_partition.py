"""A leader asks for other in-sync replicas."""

from typing import Any

import pytest

from ottla.errors import BrokerError, ErrorCode
from ottla.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from tests.metadata.rig import Rig
from tests.metadata.test_heartbeats import a_rig, create


@pytest.fixture
def rig() -> Rig:
    rig = a_rig()
    create(rig)
    return rig


def key(rig: Rig) -> tuple[bytes, int]:
    return rig.image.topics["t"].topic_id, 0


def members(rig: Rig) -> tuple[int, int, int]:
    """The leader and its two followers."""
    leader, one, other = rig.partition().replicas
    assert leader == rig.partition().leader
    return leader, one, other


def test_replicas_leave_and_come_back(rig: Rig) -> None:
    leader, one, other = members(rig)
    assert rig.alter(key(rig), [leader, one]) == ErrorCode.NONE
    assert rig.partition().isr == (leader, one)
    assert rig.alter(key(rig), [leader, one, other]) == ErrorCode.NONE
    partition = rig.partition()
    assert (partition.isr, partition.leader_epoch, partition.partition_epoch) == ((leader, one, other), 0, 2)


def test_the_answer_is_the_partition_as_it_is_then(rig: Rig) -> None:
    leader, one, _ = members(rig)
    request = request_of(rig, new_isr_with_epochs=[state(rig, leader), state(rig, one)])
    response = rig.commit(rig.controller.alter_partition(request))
    assert response is not None
    answer = response.topics[0].partitions[0]
    assert (answer.leader_id, answer.leader_epoch, tuple(answer.isr), answer.partition_epoch) == (
        leader,
        0,
        (leader, one),
        1,
    )


def test_what_is_so_already_is_granted_without_a_record(rig: Rig) -> None:
    rig.written = []
    assert rig.alter(key(rig), list(members(rig))) == ErrorCode.NONE
    assert rig.written == []


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"leader_epoch": -1}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"leader_epoch": 9}, ErrorCode.NOT_CONTROLLER),
        ({"partition_epoch": -1}, ErrorCode.INVALID_UPDATE_VERSION),
        ({"partition_epoch": 9}, ErrorCode.NOT_CONTROLLER),
        ({"partition_index": 7}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"leader_recovery_state": 1}, ErrorCode.INVALID_REQUEST),
        ({"leader_recovery_state": 5}, ErrorCode.INVALID_REQUEST),
        ({"new_isr_with_epochs": [], "new_isr": []}, ErrorCode.INVALID_REQUEST),
        ({"new_isr_with_epochs": [], "new_isr": [77]}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_is_wrong_is_refused_by_kafkas_code(rig: Rig, wrong: dict[str, Any], code: ErrorCode) -> None:
    rig.written = []
    assert rig.alter(key(rig), list(members(rig)), **wrong) == code
    assert rig.written == []


def test_in_sync_replicas_are_replicas_each_once_and_the_leader_among_them(rig: Rig) -> None:
    leader, one, _ = members(rig)
    assert rig.alter(key(rig), [one]) == ErrorCode.INVALID_REQUEST
    assert rig.alter(key(rig), [leader, one, one]) == ErrorCode.INVALID_REQUEST
    rig.start(4)
    assert rig.alter(key(rig), [leader, 4]) == ErrorCode.INVALID_REQUEST


def test_only_processes_in_service_may_be_in_sync(rig: Rig) -> None:
    leader, one, other = members(rig)
    rig.start(one)
    rig.heartbeat(rig.brokers[one], want_fence=True)
    assert rig.alter(key(rig), [leader, one, other]) == ErrorCode.INELIGIBLE_REPLICA
    rig.heartbeat(rig.brokers[one])
    stale = [BrokerState(broker_id=id_, broker_epoch=rig.brokers[id_].epoch - (id_ == one)) for id_ in members(rig)]
    assert rig.alter(key(rig), [], new_isr_with_epochs=stale) == ErrorCode.INELIGIBLE_REPLICA
    assert rig.alter(key(rig), [leader, one, other]) == ErrorCode.NONE


def test_version_2_names_no_epochs(rig: Rig) -> None:
    leader, one, _ = members(rig)
    assert rig.alter(key(rig), [], new_isr=[leader, one]) == ErrorCode.NONE
    assert rig.partition().isr == (leader, one)


def test_only_the_leader_may_ask(rig: Rig) -> None:
    _, one, _ = members(rig)
    request = AlterPartitionRequest(
        broker_id=one,
        broker_epoch=rig.brokers[one].epoch,
        topics=[RequestTopicData(topic_id=key(rig)[0], partitions=[RequestPartitionData(new_isr=[one])])],
    )
    response = rig.controller.alter_partition(request).response
    assert response is not None
    assert response.topics[0].partitions[0].error_code == ErrorCode.INVALID_REQUEST


def test_a_topic_that_is_gone_is_told_by_its_id(rig: Rig) -> None:
    request = request_of(rig, topic_id=b"?" * 16)
    response = rig.controller.alter_partition(request).response
    assert response is not None
    assert response.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_an_old_process_of_the_leader_is_refused_as_a_whole(rig: Rig) -> None:
    request = request_of(rig, broker_epoch=-1)
    with pytest.raises(BrokerError) as refused:
        rig.controller.alter_partition(request)
    assert refused.value.code == ErrorCode.STALE_BROKER_EPOCH


def test_a_partition_is_altered_once_in_a_request(rig: Rig) -> None:
    leader, one, other = members(rig)
    topics = [
        *request_of(rig, new_isr_with_epochs=[state(rig, leader), state(rig, one)]).topics,
        *request_of(rig, new_isr_with_epochs=[state(rig, leader), state(rig, other)]).topics,
    ]
    request = AlterPartitionRequest(broker_id=leader, broker_epoch=rig.brokers[leader].epoch, topics=topics)
    response = rig.commit(rig.controller.alter_partition(request))
    assert response is not None
    codes = [topic.partitions[0].error_code for topic in response.topics]
    assert codes == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
    assert rig.partition().isr == (leader, one)


def test_a_leader_recovers_from_its_unclean_election() -> None:
    rig = a_rig(2)
    rig.unclean.add("t")
    create(rig, replicas=2)
    first, second = rig.partition().replicas
    rig.kill(second)
    rig.pass_ms(6_200)
    rig.wipe(first)
    rig.start(second)
    rig.pass_ms(6_200)
    wanted = [TopicPartitions(topic="t", partitions=[0])]
    rig.commit(rig.controller.elect_leaders(ElectLeadersRequest(election_type=1, topic_partitions=wanted)))
    assert (rig.partition().leader, rig.partition().leader_recovery_state) == (second, 1)
    assert rig.alter(key(rig), [second], leader_recovery_state=1) == ErrorCode.NONE
    assert rig.alter(key(rig), [second], leader_recovery_state=0) == ErrorCode.NONE
    assert rig.partition().leader_recovery_state == 0


def state(rig: Rig, broker_id: int) -> BrokerState:
    return BrokerState(broker_id=broker_id, broker_epoch=rig.brokers[broker_id].epoch)


def request_of(
    rig: Rig, *, broker_epoch: int | None = None, topic_id: bytes | None = None, **data: Any
) -> AlterPartitionRequest:
    leader = rig.partition().leader
    return AlterPartitionRequest(
        broker_id=leader,
        broker_epoch=rig.brokers[leader].epoch if broker_epoch is None else broker_epoch,
        topics=[
            RequestTopicData(
                topic_id=rig.image.topics["t"].topic_id if topic_id is None else topic_id,
                partitions=[RequestPartitionData(partition_index=0, **data)],
            )
        ],
    )
