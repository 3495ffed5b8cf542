import random

from ottla.config import BrokerConfig
from ottla.metadata.controller import Controller
from ottla.metadata.image import MetadataImage
from ottla.metadata.records import decode_record, encode_record
from ottla.metadata.snapshot import records_of
from ottla.metadata.state import MetadataState
from ottla.protocol.messages import alter_client_quotas
from ottla.protocol.messages.metadata_records import (
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    UnregisterBrokerRecord,
)
from tests.metadata.cluster import a_controller, commit, create, registration


def restored(image: MetadataImage) -> MetadataImage:
    """What a node has that was given the image as a snapshot."""
    state = MetadataState()
    for record in records_of(image):
        state.replay(decode_record(*encode_record(record)))
    return state.image


def a_busy_controller() -> Controller:
    controller = a_controller(3, racks=["a", "b", "c"])
    create(controller, "orders", partitions=3, replication_factor=3, configs={"retention.ms": "1000"})
    create(controller, "events")
    topic_id = controller.image.topics["orders"].topic_id
    controller.replay(
        PartitionChangeRecord(
            topic_id=topic_id,
            partition_id=1,
            isr=[],
            leader=-1,
            eligible_leader_replicas=[2],
            last_known_elr=[2],
            replicas=[2, 3, 1],
            adding_replicas=[1],
            removing_replicas=[3],
            leader_recovery_state=1,
        )
    )
    controller.replay(BrokerRegistrationChangeRecord(broker_id=2, fenced=1, in_controlled_shutdown=1))
    commit(controller, controller.allocate_producer_ids(1))
    entity = [alter_client_quotas.EntityData(entity_type="user", entity_name=None)]
    op = alter_client_quotas.OpData(key="producer_byte_rate", value=5.0)
    entry = alter_client_quotas.RequestEntryData(entity=entity, ops=[op])
    commit(controller, controller.alter_client_quotas(alter_client_quotas.AlterClientQuotasRequest(entries=[entry])))
    return controller


def test_a_snapshot_gives_the_same_image() -> None:
    image = a_busy_controller().image
    assert restored(image) == image


def test_a_snapshot_of_nothing_is_empty() -> None:
    assert list(records_of(MetadataState().image)) == []


def test_epochs_of_brokers_that_left_are_not_given_again() -> None:
    controller = a_controller(2)
    left = controller.image.brokers[2].broker_epoch
    controller.replay(UnregisterBrokerRecord(broker_id=2, broker_epoch=left))
    again = Controller(BrokerConfig(), random.Random(0), image=restored(controller.image))
    assert commit(again, again.register_broker(registration(2, incarnation=1))) > left


def test_the_epoch_of_features_does_not_go_back() -> None:
    controller = a_controller(1)
    for _ in range(3):
        controller.replay(FeatureLevelRecord(name="some.version", feature_level=1))
        controller.replay(FeatureLevelRecord(name="some.version", feature_level=0))
    features = restored(controller.image).features
    assert features == controller.image.features
    assert "some.version" not in features.finalized


def test_a_controller_goes_on_from_an_image() -> None:
    controller = a_busy_controller()
    again = Controller(BrokerConfig(), random.Random(1), image=controller.image)
    assert again.image == controller.image
    assert create(again, "ev.ents")[0].error_code == create(controller, "ev.ents")[0].error_code
    (refused,) = create(again, "ev_ents")
    assert "collides" in (refused.error_message or "")
