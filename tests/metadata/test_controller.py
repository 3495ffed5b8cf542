"""What must hold for the controller whatever it is asked: replay is everything, and images never change."""

import random
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ottla.config import BrokerConfig
from ottla.errors import BrokerError
from ottla.metadata.controller import Controller
from ottla.metadata.image import MetadataImage
from ottla.metadata.records import MetadataRecord, decode_record, encode_record
from ottla.protocol.messages import alter_client_quotas, incremental_alter_configs
from ottla.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.create_topics import CreateTopicsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.metadata_records import PartitionChangeRecord
from ottla.replicated import Result
from tests.metadata.cluster import a_controller, create, registration, topic

NAMES = st.sampled_from(["a", "b", "a.b", "a_b", "x/y", "__consumer_offsets", "__cluster_metadata"])
CONFIGS = st.dictionaries(st.sampled_from(["retention.ms", "segment.bytes", "nope"]), st.sampled_from(["1000", "x"]))


def a_fresh_controller() -> Controller:
    return Controller(BrokerConfig(default_replication_factor=2), random.Random(0))


class Requests(RuleBasedStateMachine):
    """Any sequence of requests, with what a log and a reader would see."""

    def __init__(self) -> None:
        super().__init__()
        self.controller = a_fresh_controller()
        self.log: list[bytes] = []
        self.seen: list[tuple[MetadataImage, str]] = []
        self.followed: Mapping[str, object] = {}

    def commit(self, result: Result[MetadataRecord, Any]) -> None:
        for record in result.records:
            _, value = encode_record(record)
            self.log.append(value)
            self.controller.replay(record)
        if result.records:
            self.follow()

    def follow(self) -> None:
        """Keep a copy of the topics by the changes alone, as a node does that opens and deletes logs."""
        changes, image = self.controller.take_changes(), self.controller.image
        followed = dict(self.followed)
        for gone in changes.topics_deleted:
            assert followed.pop(gone.name) == gone
        for name in changes.topics_created:
            assert name not in followed
        for name in changes.topics_changed:
            assert name in followed
        self.followed = followed | changes.topics_created | changes.topics_changed
        self.seen = [*self.seen[-5:], (image, repr(image))]

    @rule(broker=st.integers(1, 4), incarnation=st.integers(0, 3), rack=st.sampled_from(["r", "s", None]))
    def register(self, broker: int, incarnation: int, rack: str | None) -> None:
        self.commit(self.controller.register_broker(registration(broker, rack, incarnation=incarnation)))

    @rule(
        names=st.lists(NAMES, max_size=3),
        partitions=st.integers(-2, 3),
        replicas=st.integers(-2, 3),
        configs=CONFIGS,
        automatic=st.booleans(),
    )
    def create(
        self, names: list[str], partitions: int, replicas: int, configs: dict[str, str | None], automatic: bool
    ) -> None:
        topics = [topic(name, partitions, replicas, configs) for name in names]
        self.commit(self.controller.create_topics(CreateTopicsRequest(topics=topics), automatic=automatic))

    @rule(names=st.lists(NAMES, max_size=3))
    def delete(self, names: list[str]) -> None:
        self.commit(self.controller.delete_topics(DeleteTopicsRequest(topic_names=names)))

    @rule(name=NAMES, count=st.integers(0, 6))
    def add_partitions(self, name: str, count: int) -> None:
        topics = [CreatePartitionsTopic(name=name, count=count, assignments=None)]
        self.commit(self.controller.create_partitions(CreatePartitionsRequest(topics=topics)))

    @rule(name=NAMES, configs=CONFIGS, operation=st.integers(0, 3))
    def change_configs(self, name: str, configs: dict[str, str], operation: int) -> None:
        resource = incremental_alter_configs.AlterConfigsResource(
            resource_type=2,
            resource_name=name,
            configs=[
                incremental_alter_configs.AlterableConfig(name=key, config_operation=operation, value=value)
                for key, value in configs.items()
            ],
        )
        request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource])
        self.commit(self.controller.incremental_alter_configs(request))

    @rule(user=st.sampled_from(["u", "v", None]), value=st.sampled_from([1_000.0, 2_000.0, None]))
    def change_quotas(self, user: str | None, value: float | None) -> None:
        entry = alter_client_quotas.RequestEntryData(
            entity=[alter_client_quotas.EntityData(entity_type="user", entity_name=user)],
            ops=[alter_client_quotas.OpData(key="producer_byte_rate", value=value or 0.0, remove=value is None)],
        )
        request = alter_client_quotas.AlterClientQuotasRequest(entries=[entry])
        self.commit(self.controller.alter_client_quotas(request))

    @rule(broker=st.integers(1, 4))
    def allocate(self, broker: int) -> None:
        try:
            self.commit(self.controller.allocate_producer_ids(broker))
        except BrokerError:
            assert broker not in self.controller.image.brokers

    @rule(data=st.data(), leader=st.integers(-2, 4))
    def change_leader(self, data: st.DataObject, leader: int) -> None:
        if self.controller.image.topics:
            chosen = data.draw(st.sampled_from(list(self.controller.image.topics.values())))
            index = data.draw(st.sampled_from(list(chosen.partitions)))
            change = PartitionChangeRecord(partition_id=index, topic_id=chosen.topic_id, leader=leader)
            self.commit(Result(records=[change]))

    @invariant()
    def replaying_the_log_gives_the_same_image(self) -> None:
        recovered, stepwise = a_fresh_controller(), a_fresh_controller()
        for value in self.log:
            recovered.replay(decode_record(None, value))
            stepwise.replay(decode_record(None, value))
            _ = stepwise.image
        assert recovered.image == stepwise.image == self.controller.image

    @invariant()
    def images_that_readers_hold_do_not_change(self) -> None:
        assert all(repr(image) == then for image, then in self.seen)

    @invariant()
    def names_and_ids_lead_to_the_same_topics(self) -> None:
        image = self.controller.image
        assert {t.topic_id: t for t in image.topics.values()} == image.topics_by_id
        assert all(
            name == t.name and list(t.partitions) == list(range(len(t.partitions))) for name, t in image.topics.items()
        )

    @invariant()
    def who_follows_the_changes_has_what_the_image_has(self) -> None:
        assert self.followed == self.controller.image.topics


TestRequests = Requests.TestCase
TestRequests.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)


def test_a_decision_by_itself_changes_nothing() -> None:
    controller = a_controller()
    before = controller.image
    for _ in range(2):
        controller.create_topics(CreateTopicsRequest(topics=[topic("a")]))
        controller.allocate_producer_ids(1)
    assert controller.image is before
    assert create(controller, "a")[0].error_code == 0


def test_nothing_here_happens_by_time_alone() -> None:
    assert a_controller().next_deadline_ms() is None


@pytest.mark.parametrize("seed", [1, 2])
def test_the_same_randomness_decides_the_same(seed: int) -> None:
    first, second = a_controller(3, seed=seed), a_controller(3, seed=seed)
    for controller in (first, second):
        create(controller, "a", "b", partitions=3)
    assert first.image == second.image
