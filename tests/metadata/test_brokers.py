from dataclasses import replace

import pytest

from ottla.errors import BrokerError, ErrorCode
from ottla.metadata import leadership
from ottla.metadata.brokers import UNFINISHED
from ottla.metadata.features import METADATA_LEVEL, METADATA_VERSION, SUPPORTED_FEATURES
from ottla.metadata.image import NO_LEADER
from ottla.protocol.messages.metadata_records import FeatureLevelRecord, RegisterBrokerRecord, UnregisterBrokerRecord
from tests.metadata.cluster import a_controller, commit, registration
from tests.metadata.rig import Rig
from tests.metadata.test_heartbeats import a_rig, create


def test_the_first_broker_begins_the_cluster_with_its_features() -> None:
    controller = a_controller(0)
    result = controller.register_broker(registration(1))
    *features, last = result.records
    assert {type(record) for record in features} == {FeatureLevelRecord}
    assert isinstance(last, RegisterBrokerRecord)
    commit(controller, result)
    finalized = controller.image.features.finalized
    assert finalized == {name: highest for name, (_, highest) in SUPPORTED_FEATURES.items()}
    assert finalized[METADATA_VERSION] == METADATA_LEVEL
    assert controller.image.brokers[1].endpoints[0].host == "host-1"
    assert controller.image.brokers[1].is_active

    (only,) = controller.register_broker(registration(2)).records
    assert isinstance(only, RegisterBrokerRecord)


def test_a_repeated_registration_changes_nothing() -> None:
    controller = a_controller(1)
    again = controller.register_broker(registration(1))
    assert (list(again.records), again.response) == ([], controller.image.brokers[1].broker_epoch)


def test_a_restarted_broker_gets_a_higher_epoch_than_any_before() -> None:
    controller = a_controller(3)
    epochs = [broker.broker_epoch for broker in controller.image.brokers.values()]
    assert len(set(epochs)) == 3
    epoch = commit(controller, controller.register_broker(registration(1, "r9", incarnation=1)))
    assert epoch > max(epochs)
    assert (controller.image.brokers[1].broker_epoch, controller.image.brokers[1].rack) == (epoch, "r9")


def test_a_broker_that_left_and_comes_back_gets_a_higher_epoch_too() -> None:
    controller = a_controller(1)
    before = controller.image.brokers[1].broker_epoch
    controller.replay(UnregisterBrokerRecord(broker_id=1, broker_epoch=before))
    assert commit(controller, controller.register_broker(registration(1, incarnation=1))) > before


def test_the_same_process_may_say_something_else_of_itself() -> None:
    controller = a_controller(1)
    before = controller.image.brokers[1]
    assert commit(controller, controller.register_broker(registration(1, "r9"))) == before.broker_epoch
    assert controller.image.brokers[1].rack == "r9"
    assert controller.image.brokers[1].is_active


def refusal(rig: Rig, broker_id: int) -> ErrorCode:
    with pytest.raises(BrokerError) as refused:
        rig.start(broker_id)
    return refused.value.code


def test_a_second_broker_with_the_same_id_is_refused_while_the_first_is_in_service() -> None:
    rig = a_rig()
    rig.brokers[2].disk = 99
    assert refusal(rig, 2) == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    rig.kill(2)
    rig.pass_ms(6_200)
    rig.start(2)
    assert rig.image.brokers[2].is_active


def test_a_restarted_broker_need_not_wait_for_its_old_session() -> None:
    rig = a_rig()
    rig.kill(2)
    rig.start(2)
    assert rig.image.brokers[2].is_active


def test_a_broker_with_a_new_disk_is_eligible_for_nothing() -> None:
    rig = a_rig(2)
    create(rig, replicas=2)
    first, second = rig.partition().replicas
    rig.kill(second)
    rig.pass_ms(6_200)
    rig.kill(first)
    rig.pass_ms(6_200)
    assert rig.partition().eligible_leader_replicas == (first,)
    rig.wipe(first)
    rig.start(first)
    rig.start(second)
    partition = rig.partition()
    assert (partition.leader, partition.isr, partition.eligible_leader_replicas) == (NO_LEADER, (), ())
    assert partition.last_known_elr == (second,), "it has at least something"


def test_a_copy_of_a_data_directory_is_refused() -> None:
    rig = a_rig(1)
    copy = registration(5)
    directories = rig.brokers[1].registration().log_dirs
    with pytest.raises(BrokerError) as refused:
        rig.controller.register_broker(replace(copy, log_dirs=directories), rig.now_ms)
    assert refused.value.code == ErrorCode.INVALID_REGISTRATION
    with pytest.raises(BrokerError) as refused:
        rig.controller.register_broker(replace(copy, log_dirs=[b"d" * 16, b"d" * 16]), rig.now_ms)
    assert refused.value.code == ErrorCode.INVALID_REGISTRATION


def test_a_broker_must_be_reachable_and_know_the_features_in_use() -> None:
    controller = a_controller(1)
    with pytest.raises(BrokerError) as refused:
        controller.register_broker(replace(registration(2), endpoints=[]))
    assert refused.value.code == ErrorCode.INVALID_REGISTRATION
    with pytest.raises(BrokerError) as refused:
        controller.register_broker(replace(registration(2), features={METADATA_VERSION: (1, METADATA_LEVEL - 1)}))
    assert refused.value.code == ErrorCode.UNSUPPORTED_VERSION


def test_a_broker_that_is_unregistered_holds_nothing_in_sync() -> None:
    rig = a_rig()
    create(rig, partitions=3)
    rig.kill(1)
    rig.commit(rig.controller.unregister_broker(1))
    assert 1 not in rig.image.brokers
    for index in range(3):
        partition = rig.partition("t", index)
        assert 1 in partition.replicas
        assert 1 not in (*partition.isr, *partition.eligible_leader_replicas, partition.leader)


def test_only_a_registered_broker_can_be_unregistered() -> None:
    with pytest.raises(BrokerError) as refused:
        a_controller(1).unregister_broker(7)
    assert refused.value.code == ErrorCode.BROKER_ID_NOT_REGISTERED


def test_a_registration_that_changes_too_much_at_once_must_be_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = a_rig()
    create(rig, partitions=9)
    monkeypatch.setattr(leadership, "SWEEP_RECORDS_MAX", 4)
    again = replace(rig.brokers[1].registration(), incarnation_id=b"x" * 16)
    answers = [rig.commit(rig.controller.register_broker(again, rig.now_ms)) for _ in range(3)]
    assert answers[:2] == [UNFINISHED, UNFINISHED]
    assert answers[2] == rig.image.brokers[1].broker_epoch
    assert rig.image.brokers[1].fenced


def test_unregistering_that_changes_too_much_at_once_must_be_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = a_rig()
    create(rig, partitions=9)
    monkeypatch.setattr(leadership, "SWEEP_RECORDS_MAX", 4)
    rig.kill(1)
    assert [rig.commit(rig.controller.unregister_broker(1)) for _ in range(3)] == [False, False, True]
    assert 1 not in rig.image.brokers
