"""The controller as a whole moves partitions: what it decides by time, what leaders and clients tell it in between."""

from ottla.config.cluster import Placement
from ottla.errors import ErrorCode
from ottla.metadata.controller import Controller
from ottla.metadata.image import ResourceType
from ottla.metadata.placement import PLACEMENT, placement_of
from ottla.metadata.records import decode_record, encode_record
from ottla.protocol.messages.alter_partition import AlterPartitionRequest, RequestPartitionData, RequestTopicData
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.metadata.balancing import moving, replica_counts
from tests.metadata.cluster import a_controller, commit, create, registration


def tick(controller: Controller, now_ms: int) -> int:
    """Let the controller decide what is due; how much it wrote."""
    records = controller.tick(now_ms).records
    for record in records:
        controller.replay(decode_record(*encode_record(record)))
    return len(records)


def let_followers_catch_up(controller: Controller) -> None:
    """Every leader says that all its replicas are in sync, as it does once they are."""
    for topic_id, index in moving(controller.image):
        partition = controller.image.topics_by_id[topic_id].partitions[index]
        wanted = RequestPartitionData(
            partition_index=index,
            leader_epoch=partition.leader_epoch,
            new_isr=partition.replicas,
            partition_epoch=partition.partition_epoch,
        )
        request = AlterPartitionRequest(
            broker_id=partition.leader,
            broker_epoch=controller.image.brokers[partition.leader].broker_epoch,
            topics=[RequestTopicData(topic_id=topic_id, partitions=[wanted])],
        )
        answer = commit(controller, controller.alter_partition(request))
        led_on = controller.image.topics_by_id[topic_id].partitions[index].leader == partition.leader
        expected = ErrorCode.NONE if led_on else ErrorCode.NEW_LEADER_ELECTED
        assert answer.topics[0].partitions[0].error_code == expected


def run(controller: Controller, start_ms: int, turns: int = 60) -> None:
    for turn in range(turns):
        tick(controller, start_ms + turn * 1_000)
        let_followers_catch_up(controller)


def set_placement(controller: Controller, broker_id: int, placement: Placement) -> None:
    config = AlterableConfig(name=PLACEMENT, config_operation=0, value=placement.value)
    resource = AlterConfigsResource(resource_type=ResourceType.BROKER, resource_name=str(broker_id), configs=[config])
    answer = commit(
        controller, controller.incremental_alter_configs(IncrementalAlterConfigsRequest(resources=[resource]))
    )
    assert answer.responses[0].error_code == ErrorCode.NONE


def test_a_broker_that_registers_gets_its_share() -> None:
    controller = a_controller(3)
    create(controller, "t", partitions=40, replication_factor=3)
    commit(controller, controller.register_broker(registration(4)))
    assert placement_of(controller.image, 4) == Placement.JOINING
    run(controller, 10_000)
    assert set(replica_counts(controller.image).values()) == {30}
    assert placement_of(controller.image, 4) == Placement.OPEN
    assert [tick(controller, 100_000 + second * 1_000) for second in range(100)] == [0] * 100


def test_brokers_that_begin_a_cluster_together_are_not_newcomers() -> None:
    controller = a_controller(3)
    assert {placement_of(controller.image, broker_id) for broker_id in (1, 2, 3)} == {Placement.OPEN}


def test_a_decommissioned_broker_is_emptied_and_gets_nothing_new() -> None:
    controller = a_controller(4)
    create(controller, "t", partitions=12, replication_factor=3)
    set_placement(controller, 2, Placement.DRAINING)
    run(controller, 10_000)
    create(controller, "u", partitions=12, replication_factor=3)
    assert replica_counts(controller.image)[2] == 0
    commit(controller, controller.unregister_broker(2))
    commit(controller, controller.register_broker(registration(2, incarnation=1)))
    assert placement_of(controller.image, 2) == Placement.JOINING


def test_the_leader_that_lets_the_last_replica_in_ends_the_move() -> None:
    controller = a_controller(3)
    create(controller, "t", replication_factor=2)
    commit(controller, controller.register_broker(registration(4)))
    set_placement(controller, controller.image.topics["t"].partitions[0].replicas[0], Placement.DRAINING)
    assert tick(controller, 10_000) == 1
    (key,) = moving(controller.image)
    epoch = controller.image.topics["t"].partitions[0].leader_epoch
    let_followers_catch_up(controller)
    partition = controller.image.topics["t"].partitions[key[1]]
    assert (len(partition.replicas), partition.adding_replicas, partition.removing_replicas) == (2, (), ())
    assert partition.leader_epoch == epoch + 1
    assert moving(controller.image) == []


def test_the_next_look_is_never_far_while_there_are_several_brokers() -> None:
    controller = a_controller(2)
    tick(controller, 10_000)
    deadline_ms = controller.next_deadline_ms()
    assert deadline_ms is not None
    assert 10_000 < deadline_ms <= 11_000
