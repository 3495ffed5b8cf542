"""Brokers and controllers come and go in any order; `rig` checks at every change that nothing committed is given up."""

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from ottla.config import BrokerConfig
from ottla.errors import BrokerError, ErrorCode
from ottla.metadata.image import NO_LEADER
from ottla.protocol.messages import incremental_alter_configs
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.create_topics import CreateTopicsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest
from tests.metadata.cluster import topic
from tests.metadata.rig import Key, Rig

BROKERS = 4
BROKER = st.integers(1, BROKERS)
NAMES = ("one", "two", "three")
TIMES = st.sampled_from([100, 700, 3_000, 7_000])


class Cluster(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.rig = Rig(BrokerConfig())

    @initialize(min_isr=st.integers(1, 2))
    def begin(self, min_isr: int) -> None:
        for broker_id in range(1, BROKERS + 1):
            self.rig.start(broker_id)
        for name, replicas in zip(NAMES, (1, 2, 3), strict=True):
            self.create(name, replicas, min_isr)

    def create(self, name: str, replicas: int, min_isr: int) -> None:
        request = CreateTopicsRequest(topics=[topic(name, 2, replicas, {"min.insync.replicas": str(min_isr)})])
        self.rig.commit(self.rig.controller.create_topics(request))

    def keys(self) -> list[Key]:
        return [(each.topic_id, index) for each in self.rig.image.topics.values() for index in each.partitions]

    # Brokers

    @rule(broker_id=BROKER, passing=TIMES)
    def kill(self, broker_id: int, passing: int) -> None:
        self.rig.kill(broker_id)
        self.rig.pass_ms(passing)

    @rule(broker_id=BROKER)
    def restart(self, broker_id: int) -> None:
        self.rig.kill(broker_id)
        self.rig.start(broker_id)

    @rule(broker_id=BROKER)
    def restart_with_an_empty_disk(self, broker_id: int) -> None:
        self.rig.wipe(broker_id)
        self.rig.pass_ms(7_000)
        self.rig.start(broker_id)

    @rule(broker_id=BROKER, passing=TIMES)
    def stop(self, broker_id: int, passing: int) -> None:
        broker = self.rig.brokers[broker_id]
        broker.is_stopping = broker.is_up
        self.rig.pass_ms(passing)

    @rule(broker_id=BROKER)
    def ask_to_be_fenced(self, broker_id: int) -> None:
        broker = self.rig.brokers[broker_id]
        if broker.is_up:
            self.rig.heartbeat(broker, want_fence=True)

    @rule(broker_id=BROKER)
    def unregister(self, broker_id: int) -> None:
        rig = self.rig
        rig.wipe(broker_id)
        if broker_id in rig.image.brokers:
            rig.commit(rig.controller.unregister_broker(broker_id))

    @rule(dead=st.sets(BROKER))
    def suspect(self, dead: set[int]) -> None:
        self.rig.commit(self.rig.controller.suspect(dead))
        self.rig.tick_all()

    @rule()
    def fail_over(self) -> None:
        self.rig.fail_over()
        self.rig.tick_all()

    @rule(passing=TIMES)
    def wait(self, passing: int) -> None:
        self.rig.pass_ms(passing)

    # Partitions

    @rule(data=st.data())
    def write(self, data: st.DataObject) -> None:
        keys = self.keys()
        if keys:
            self.rig.write(data.draw(st.sampled_from(keys)))

    @rule(data=st.data())
    def leader_alters(self, data: st.DataObject) -> None:
        keys = [key for key in self.keys() if self.leads(key)]
        if not keys:
            return
        topic_id, index = key = data.draw(st.sampled_from(keys))
        partition = self.rig.image.topics_by_id[topic_id].partitions[index]
        up = [replica for replica in partition.replicas if self.rig.brokers[replica].is_up]
        chosen = data.draw(st.sets(st.sampled_from(up))) | {partition.leader}
        isr = [replica for replica in partition.replicas if replica in chosen]
        code = self.rig.alter(key, isr)
        brokers = self.rig.image.brokers
        if all(brokers[replica].is_active for replica in isr):
            assert code == ErrorCode.NONE or (code == ErrorCode.NEW_LEADER_ELECTED and partition.removing_replicas)
        else:
            assert code == ErrorCode.INELIGIBLE_REPLICA

    def leads(self, key: Key) -> bool:
        topic_id, index = key
        leader = self.rig.image.topics_by_id[topic_id].partitions[index].leader
        return leader != NO_LEADER and self.rig.brokers[leader].is_up and leader in self.rig.image.brokers

    @rule()
    def elect_preferred(self) -> None:
        self.rig.commit(self.rig.controller.elect_leaders(ElectLeadersRequest(election_type=0, topic_partitions=None)))

    @rule(data=st.data(), replicas=st.none() | st.lists(BROKER, min_size=1, max_size=3, unique=True))
    def reassign(self, data: st.DataObject, replicas: list[int] | None) -> None:
        """Or stop a move that is under way."""
        keys = self.keys()
        if not keys:
            return
        topic_id, index = data.draw(st.sampled_from(keys))
        partitions = [ReassignablePartition(partition_index=index, replicas=replicas)]
        topics = [ReassignableTopic(name=self.rig.image.topics_by_id[topic_id].name, partitions=partitions)]
        self.rig.commit(
            self.rig.controller.alter_partition_reassignments(AlterPartitionReassignmentsRequest(topics=topics))
        )

    @precondition(lambda self: self.rig.image.topics)
    @rule(data=st.data(), min_isr=st.integers(1, 3))
    def configure(self, data: st.DataObject, min_isr: int) -> None:
        name = data.draw(st.sampled_from(sorted(self.rig.image.topics)))
        self.rig.commit(self.rig.controller.incremental_alter_configs(setting(name, "min.insync.replicas", min_isr)))

    @precondition(lambda self: self.rig.image.topics)
    @rule(data=st.data())
    def allow_unclean(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.rig.image.topics)))
        self.rig.unclean.add(name)
        request = setting(name, "unclean.leader.election.enable", "true")
        self.rig.commit(self.rig.controller.incremental_alter_configs(request))

    @rule(name=st.sampled_from(NAMES), replicas=st.integers(1, 3), min_isr=st.integers(1, 2))
    def create_again(self, name: str, replicas: int, min_isr: int) -> None:
        if name not in self.rig.image.topics:
            self.rig.unclean.discard(name)
            self.create(name, replicas, min_isr)

    @rule(name=st.sampled_from(NAMES))
    def delete(self, name: str) -> None:
        self.rig.commit(self.rig.controller.delete_topics(DeleteTopicsRequest(topic_names=[name])))

    def teardown(self) -> None:
        """When all are back, and nobody's disk was lost, everything has a leader."""
        rig = self.rig
        for broker_id, broker in rig.brokers.items():
            if not broker.is_up or broker.is_stopping:
                rig.kill(broker_id)
                try:
                    rig.start(broker_id)
                except BrokerError as error:
                    raise AssertionError(f"broker {broker_id} can't come back: {error}") from error
        rig.pass_ms(1_000)
        assert all(broker.is_active for broker in rig.image.brokers.values())
        leaderless = {key for key in self.keys() if not self.leads(key)}
        assert leaderless <= rig.lost_data


def setting(name: str, config: str, value: Any) -> incremental_alter_configs.IncrementalAlterConfigsRequest:
    entry = incremental_alter_configs.AlterableConfig(name=config, config_operation=0, value=str(value))
    resource = incremental_alter_configs.AlterConfigsResource(resource_type=2, resource_name=name, configs=[entry])
    return incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource])


TestCluster = Cluster.TestCase
TestCluster.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
