"""Brokers, leaders and in-sync replicas as transcripts: tests/scenarios/controller.

    brokers 1 2 3 | topic t on 1,2,3 [min=2]               t gets one partition more with each list of replicas
    1 dies | 1 starts | 1 starts anew (on an empty disk) | 1 lags | 1 keeps up | 1 stops | 1 asks to be fenced
    t0 keeps 1,2                                           the leader asks for these in-sync replicas, by AlterPartition
    gossip suspects 1 2 | gossip suspects nobody | 7s pass | the controller moves
    elect preferred t0 | elect unclean t0 | set t min.insync.replicas=1 | unregister 1

What happened is what was written: a partition as `t0: leader@epoch in sync +eligible`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from ottla.config import BrokerConfig, ClusterConfig
from ottla.errors import BrokerError, ErrorCode
from ottla.metadata.image import NO_LEADER, PartitionImage
from ottla.metadata.records import MetadataRecord
from ottla.metadata.state import FENCE
from ottla.protocol.messages import incremental_alter_configs as incremental
from ottla.protocol.messages.broker_heartbeat import BrokerHeartbeatResponse
from ottla.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.protocol.messages.metadata_records import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from tests.metadata.rig import Broker, Rig
from tests.scenarios import check_scenario, scenario_files

UNITS_MS = {"ms": 1, "s": 1_000, "min": 60_000}
BY_HAND = ClusterConfig(auto_rebalance_enable=False, auto_leader_rebalance_enable=False)


@pytest.mark.parametrize("path", scenario_files("controller"), ids=lambda path: path.stem)
def test_scenario(path: Path, request: pytest.FixtureRequest) -> None:
    check_scenario(path, Stage().run, request)


class Stage(Rig):
    """Runs commands, and tells what comes of them."""

    def __init__(self) -> None:
        super().__init__(BrokerConfig(cluster=BY_HAND))
        self.events: list[str] = []

    def run(self, command: str) -> str:
        self.events, self.written = [], []
        try:
            self._dispatch(command.split())
        except BrokerError as error:
            self.events.append(error.code.name)
        self.tick_all()
        return "; ".join([*self._told(), *self.events]) or "nothing"

    def _dispatch(self, words: Sequence[str]) -> None:
        match words:
            case ["brokers", *ids]:
                for broker_id in ids:
                    self.start(int(broker_id))
            case ["topic", name, "on", *options]:
                self._create(name, options)
            case ["gossip", "suspects", *suspects]:
                self.commit(self.controller.suspect([int(one) for one in suspects if one != "nobody"]))
            case [duration, "pass"]:
                self.pass_ms(milliseconds(duration))
            case ["the", "controller", "moves"]:
                self.fail_over()
            case ["elect", kind, where]:
                self._elect(kind, where)
            case ["set", name, setting]:
                self._set(name, *setting.split("="))
            case ["unregister", broker_id]:
                self.commit(self.controller.unregister_broker(int(broker_id)))
            case [where, "keeps", isr] if isr != "up":
                code = self.alter(self._key(where), [int(replica) for replica in isr.split(",")])
                self.events += [] if code == ErrorCode.NONE else [ErrorCode(code).name]
            case [broker_id, *doing]:
                self._act(int(broker_id), doing)

    def _act(self, broker_id: int, doing: Sequence[str]) -> None:
        match doing:
            case ["dies"]:
                self.kill(broker_id)
            case ["starts"]:
                self.start(broker_id)
            case ["starts", "anew"]:
                self.wipe(broker_id)
                self.start(broker_id)
            case ["lags"]:
                self.brokers[broker_id].lags = True
            case ["keeps", "up"]:
                self.brokers[broker_id].lags = False
            case ["asks", "to", "be", "fenced"]:
                self.heartbeat(self.brokers[broker_id], want_fence=True)
            case ["stops"]:
                self.brokers[broker_id].is_stopping = True
                self.heartbeat(self.brokers[broker_id])

    def heartbeat(self, broker: Broker, *, want_fence: bool = False) -> BrokerHeartbeatResponse:
        response = super().heartbeat(broker, want_fence=want_fence)
        if response.should_shut_down:
            self.events.append(f"{broker.broker_id} may go")
        return response

    def _create(self, name: str, options: Sequence[str]) -> None:
        lists = [option for option in options if option[0].isdigit()]
        configs: dict[str, str] = {}
        for option in options:
            if option.startswith("min="):
                configs["min.insync.replicas"] = option.removeprefix("min=")
        assignments = [
            CreatableReplicaAssignment(
                partition_index=index, broker_ids=[int(replica) for replica in replicas.split(",")]
            )
            for index, replicas in enumerate(lists)
        ]
        wanted = CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=assignments,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
        )
        response = self.commit(self.controller.create_topics(CreateTopicsRequest(topics=[wanted])))
        assert response is not None
        assert response.topics[0].error_code == ErrorCode.NONE

    def _elect(self, kind: str, where: str) -> None:
        if kind == "unclean":
            self.unclean.add(where[0])
        wanted = [TopicPartitions(topic=where[0], partitions=[int(where[1:])])]
        request = ElectLeadersRequest(election_type=int(kind == "unclean"), topic_partitions=wanted)
        response = self.commit(self.controller.elect_leaders(request))
        assert response is not None
        code = response.replica_election_results[0].partition_result[0].error_code
        self.events += [] if code == ErrorCode.NONE else [ErrorCode(code).name]

    def _set(self, topic: str, name: str, value: str) -> None:
        if name == "unclean.leader.election.enable":
            self.unclean.add(topic)
        entry = incremental.AlterableConfig(name=name, config_operation=0, value=value)
        resources = [incremental.AlterConfigsResource(resource_type=2, resource_name=topic, configs=[entry])]
        self.commit(
            self.controller.incremental_alter_configs(incremental.IncrementalAlterConfigsRequest(resources=resources))
        )

    def _key(self, where: str) -> tuple[bytes, int]:
        return self.image.topics[where[0]].topic_id, int(where[1:])

    # Telling

    def _told(self) -> list[str]:
        """Each partition once, as it is in the end."""
        told = [self._text(record) for record in self.written]
        return list(dict.fromkeys(text for text in told if text))

    def _text(self, record: MetadataRecord) -> str:
        match record:
            case RegisterBrokerRecord():
                return f"{record.broker_id} registered, epoch {record.broker_epoch}"
            case UnregisterBrokerRecord():
                return f"{record.broker_id} unregistered"
            case BrokerRegistrationChangeRecord() if record.in_controlled_shutdown:
                return f"{record.broker_id} stopping"
            case BrokerRegistrationChangeRecord():
                return f"{record.broker_id} {'fenced' if record.fenced == FENCE else 'in service'}"
            case ConfigRecord():
                return f"{record.resource_name}: {record.name}={record.value}"
            case PartitionRecord() | PartitionChangeRecord():
                topic = self.image.topics_by_id[record.topic_id]
                return f"{topic.name}{record.partition_id}: {partition_text(topic.partitions[record.partition_id])}"
            case _:
                return ""


def partition_text(partition: PartitionImage) -> str:
    leader = "nobody" if partition.leader == NO_LEADER else str(partition.leader)
    eligible = "".join(f" +{replica}" for replica in partition.eligible_leader_replicas)
    recovering = " recovering" if partition.leader_recovery_state else ""
    isr = ",".join(map(str, partition.isr)) or "none"
    return f"{leader}@{partition.leader_epoch} of {isr}{eligible}{recovering}"


def milliseconds(text: str) -> int:
    number = text.rstrip("msin")
    return int(number) * UNITS_MS[text.removeprefix(number)]
