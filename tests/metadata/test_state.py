import pytest

from ottla.errors import InvariantError
from ottla.metadata.image import ConfigResource, ResourceType, quota_entity
from ottla.metadata.state import Changes, MetadataState
from ottla.protocol.messages.metadata_records import (
    BrokerEndpoint,
    BrokerRegistrationChangeRecord,
    ClientQuotaRecord,
    ConfigRecord,
    EntityData,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)

A, B = b"A" * 16, b"B" * 16
TOPIC_A = ConfigResource(ResourceType.TOPIC, "a")


def partition(topic_id: bytes, index: int, *, leader: int = 1) -> PartitionRecord:
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=[1, 2],
        isr=[1, 2],
        leader=leader,
        leader_epoch=0,
        partition_epoch=0,
    )


@pytest.fixture
def state() -> MetadataState:
    """Topic `a` with two partitions."""
    state = MetadataState()
    for record in (TopicRecord(name="a", topic_id=A), partition(A, 0), partition(A, 1)):
        state.replay(record)
    state.take_changes()
    return state


def test_a_topic_is_found_by_name_and_by_id(state: MetadataState) -> None:
    topic = state.image.topics["a"]
    assert state.image.topics_by_id[A] is topic
    assert list(topic.partitions) == [0, 1]
    assert topic.partitions[0].replicas == (1, 2)
    assert not topic.is_internal


def test_partitions_that_are_alike_are_one_object(state: MetadataState) -> None:
    partitions = state.image.topics["a"].partitions
    assert partitions[0] is partitions[1]


def test_an_image_is_built_once_per_batch(state: MetadataState) -> None:
    before = state.image
    assert state.image is before
    state.replay(ProducerIdsRecord(next_producer_id=1_000))
    after = state.image
    assert after is not before
    assert after.topics is before.topics, "what has not changed is shared"
    assert (before.next_producer_id, after.next_producer_id) == (0, 1_000)


def test_an_image_does_not_change_when_the_state_does(state: MetadataState) -> None:
    before = state.image
    topics, topic = dict(before.topics), before.topics["a"]
    partitions = dict(topic.partitions)

    state.replay(PartitionChangeRecord(partition_id=0, topic_id=A, leader=2))
    state.replay(TopicRecord(name="b", topic_id=B))
    state.replay(ConfigRecord(resource_type=2, resource_name="a", name="x", value="1"))
    changed = state.image
    state.replay(RemoveTopicRecord(topic_id=A))
    state.replay(ConfigRecord(resource_type=2, resource_name="b", name="x", value="1"))
    _ = state.image

    assert (before.topics, topic.partitions, before.configs) == (topics, partitions, {})
    assert changed.configs == {TOPIC_A: {"x": "1"}}
    assert list(changed.topics) == ["a", "b"]


def test_a_new_leader_starts_a_new_leader_epoch(state: MetadataState) -> None:
    state.replay(PartitionChangeRecord(partition_id=0, topic_id=A, leader=2))
    changed = state.image.topics["a"].partitions[0]
    assert (changed.leader, changed.leader_epoch, changed.partition_epoch) == (2, 1, 1)
    assert changed.isr == (1, 2)


def test_a_change_of_the_isr_leaves_the_leader_epoch_alone(state: MetadataState) -> None:
    state.replay(PartitionChangeRecord(partition_id=0, topic_id=A, isr=[1]))
    state.replay(PartitionChangeRecord(partition_id=0, topic_id=A, isr=[1, 2], eligible_leader_replicas=[]))
    changed = state.image.topics["a"].partitions[0]
    assert (changed.isr, changed.leader_epoch, changed.partition_epoch) == ((1, 2), 0, 2)


def test_a_topic_is_removed_with_its_configs(state: MetadataState) -> None:
    state.replay(ConfigRecord(resource_type=2, resource_name="a", name="x", value="1"))
    state.replay(ConfigRecord(resource_type=2, resource_name="ab", name="x", value="1"))
    _ = state.image
    state.replay(RemoveTopicRecord(topic_id=A))
    assert (state.image.topics, state.image.topics_by_id) == ({}, {})
    assert state.image.configs == {ConfigResource(2, "ab"): {"x": "1"}}


def test_a_topic_may_come_back_under_its_name_in_the_same_batch(state: MetadataState) -> None:
    old = state.image.topics["a"]
    for record in (RemoveTopicRecord(topic_id=A), TopicRecord(name="a", topic_id=B), partition(B, 0)):
        state.replay(record)
    changes = state.take_changes()
    assert state.image.topics["a"].topic_id == B
    assert list(state.image.topics_by_id) == [B]
    assert (changes.topics_deleted, list(changes.topics_created)) == ([old], ["a"])


def test_a_topic_may_come_and_go_in_one_batch(state: MetadataState) -> None:
    for record in (TopicRecord(name="b", topic_id=B), partition(B, 0), RemoveTopicRecord(topic_id=B)):
        state.replay(record)
    assert list(state.image.topics) == ["a"]
    assert not state.take_changes()


def test_a_record_about_a_topic_that_is_not_there_stops_the_node(state: MetadataState) -> None:
    with pytest.raises(InvariantError, match="no topic"):
        state.replay(partition(B, 0))
    with pytest.raises(InvariantError, match="no topic"):
        state.replay(RemoveTopicRecord(topic_id=B))


def test_configs_are_set_and_removed_one_by_one() -> None:
    state = MetadataState()
    for name, value in [("x", "1"), ("y", "2"), ("x", None)]:
        state.replay(ConfigRecord(resource_type=2, resource_name="a", name=name, value=value))
    assert state.image.configs == {TOPIC_A: {"y": "2"}}
    assert state.image.config_of(ResourceType.TOPIC, "a") == {"y": "2"}
    assert state.image.config_of(ResourceType.TOPIC, "b") == {}
    state.replay(ConfigRecord(resource_type=2, resource_name="a", name="y", value=None))
    assert state.image.configs == {}


def quota(key: str, value: float | None, *entity: tuple[str, str | None]) -> ClientQuotaRecord:
    parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
    return ClientQuotaRecord(entity=parts, key=key, value=value or 0.0, remove=value is None)


def test_quotas_are_kept_by_entity_whatever_the_order_of_its_parts() -> None:
    state = MetadataState()
    state.replay(quota("p", 1.0, ("user", "u"), ("client-id", None)))
    state.replay(quota("c", 2.0, ("client-id", None), ("user", "u")))
    entity = quota_entity([("user", "u"), ("client-id", None)])
    assert state.image.client_quotas == {entity: {"p": 1.0, "c": 2.0}}
    state.replay(quota("p", None, ("user", "u"), ("client-id", None)))
    state.replay(quota("c", None, ("user", "u"), ("client-id", None)))
    assert state.image.client_quotas == {}


def test_features_have_an_epoch_that_goes_up() -> None:
    state = MetadataState()
    epochs = [state.image.features.epoch]
    for level in (1, 2, 0):
        state.replay(FeatureLevelRecord(name="f", feature_level=level))
        epochs.append(state.image.features.epoch)
    assert epochs == sorted(set(epochs))
    assert state.image.features.finalized == {}


def test_brokers_register_are_fenced_and_leave() -> None:
    state = MetadataState()
    endpoint = BrokerEndpoint(name="PLAINTEXT", host="h", port=1, security_protocol=0)
    state.replay(RegisterBrokerRecord(broker_id=7, broker_epoch=3, end_points=[endpoint], rack=None, fenced=True))
    assert not state.image.brokers[7].is_active
    state.replay(BrokerRegistrationChangeRecord(broker_id=7, broker_epoch=3, fenced=-1))
    assert state.image.brokers[7].is_active
    assert state.image.brokers[7].endpoints == (("PLAINTEXT", "h", 1, 0),)
    state.replay(BrokerRegistrationChangeRecord(broker_id=7, broker_epoch=3, in_controlled_shutdown=1))
    assert not state.image.brokers[7].is_active
    state.replay(UnregisterBrokerRecord(broker_id=7, broker_epoch=3))
    assert state.image.brokers == {}
    assert state.take_changes().brokers == {7}


def test_changes_tell_what_is_new_what_is_different_and_what_is_gone(state: MetadataState) -> None:
    state.replay(TopicRecord(name="b", topic_id=B))
    state.replay(partition(B, 0))
    state.replay(PartitionChangeRecord(partition_id=0, topic_id=A, leader=2))
    state.replay(ConfigRecord(resource_type=2, resource_name="a", name="x", value="1"))
    changes = state.take_changes()
    assert changes.topics_created == {"b": state.image.topics["b"]}
    assert changes.topics_changed == {"a": state.image.topics["a"]}
    assert (changes.topics_deleted, changes.configs) == ([], {TOPIC_A})
    assert not state.take_changes(), "taken once"

    gone = state.image.topics["a"]
    state.replay(RemoveTopicRecord(topic_id=A))
    assert state.take_changes().topics_deleted == [gone]


def test_changes_add_up_until_they_are_taken(state: MetadataState) -> None:
    state.replay(TopicRecord(name="b", topic_id=B))
    _ = state.image
    state.replay(partition(B, 0))
    changes = state.take_changes()
    assert changes.topics_created == {"b": state.image.topics["b"]}
    assert changes.topics_changed == {}


def test_a_topic_that_changed_and_then_went_is_only_gone(state: MetadataState) -> None:
    state.replay(PartitionChangeRecord(partition_id=0, topic_id=A, leader=2))
    changed = state.image.topics["a"]
    state.replay(RemoveTopicRecord(topic_id=A))
    changes = state.take_changes()
    assert (changes.topics_changed, changes.topics_deleted) == ({}, [changed])


def test_no_changes_are_false() -> None:
    assert not Changes()
    assert Changes(client_quotas=True)


def test_names_that_would_collide_are_remembered_as_long_as_the_topic_lives(state: MetadataState) -> None:
    state.replay(TopicRecord(name="x.y", topic_id=B))
    assert state.colliding_names == {"x_y": "x.y"}
    state.replay(RemoveTopicRecord(topic_id=B))
    assert state.colliding_names == {}
