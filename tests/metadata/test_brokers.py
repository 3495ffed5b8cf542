from ottla.metadata.features import METADATA_LEVEL, METADATA_VERSION
from ottla.protocol.messages.metadata_records import FeatureLevelRecord, RegisterBrokerRecord, UnregisterBrokerRecord
from tests.metadata.cluster import a_controller, commit, registration


def test_the_first_broker_begins_the_cluster_with_its_features() -> None:
    controller = a_controller(0)
    result = controller.register_broker(registration(1))
    assert [type(record) for record in result.records] == [FeatureLevelRecord, RegisterBrokerRecord]
    commit(controller, result)
    assert controller.image.features.finalized == {METADATA_VERSION: METADATA_LEVEL}
    assert controller.image.brokers[1].endpoints[0].host == "host-1"
    assert controller.image.brokers[1].is_active

    (only,) = controller.register_broker(registration(2)).records
    assert isinstance(only, RegisterBrokerRecord)


def test_a_repeated_registration_changes_nothing() -> None:
    controller = a_controller(1)
    again = controller.register_broker(registration(1))
    assert (again.records, again.response) == ((), controller.image.brokers[1].broker_epoch)


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
