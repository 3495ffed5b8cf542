"""What a simulated client believes about leaders: as real clients, the highest epoch that it was told of."""

from random import Random
from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.protocol.messages.produce import LeaderIdAndEpoch, NodeEndpoint
from ottla.protocol.schema import Request
from ottla.testing.history import History, LeaderSeen
from ottla.testing.sim_loop import SimLoop
from ottla.testing.sim_network import Network
from ottla.testing.sim_view import ClusterView, Leader
from ottla.testing.sim_wire import Address, UnavailableError
from ottla.testing.sim_world import World
from ottla.types import TopicPartition

T0 = TopicPartition("t", 0)
BROKERS = [MetadataResponseBroker(node_id=number, host=f"node-{number}", port=9092) for number in (1, 2, 3)]


class View(ClusterView):
    """Every broker answers with what the test says."""

    answer: MetadataResponse

    async def ask(self, address: Address, request: Request, version: int, *, timeout_s: float = 1.0) -> Any:
        return self.answer

    def say(self, leader: int, epoch: int, error: ErrorCode = ErrorCode.NONE) -> None:
        partition = MetadataResponsePartition(leader_id=leader, leader_epoch=epoch, error_code=error)
        self.answer = MetadataResponse(
            brokers=BROKERS, topics=[MetadataResponseTopic(name="t", partitions=[partition])]
        )


class Rig:
    def __init__(self) -> None:
        self.world = World(1)
        self.loop = SimLoop(self.world, Network(self.world), "client")
        self.history = History()
        self.view = View(self.loop, [("node-1", 9092)], client_id="client", dice=Random(1), history=self.history)

    def leader(self) -> Leader:
        task = self.loop.create_task(self.view.leader(T0))
        self.world.run_until(task.done, deadline=10)
        found: Leader = task.result()
        return found


@pytest.fixture
def rig() -> Any:
    rig = Rig()
    yield rig
    rig.loop.kill()
    rig.world.run_for(0)


def test_a_leader_is_believed_until_something_goes_wrong(rig: Rig) -> None:
    rig.view.say(2, 5)
    assert rig.leader() == Leader(2, 5, ("node-2", 9092))
    rig.view.say(3, 6)
    assert rig.leader().node_id == 2
    rig.view.forget_leaders()
    assert rig.leader() == Leader(3, 6, ("node-3", 9092))


def test_a_broker_that_knows_less_is_not_believed(rig: Rig) -> None:
    rig.view.say(3, 6)
    rig.leader()
    rig.view.forget_leaders()
    rig.view.say(2, 5)
    with pytest.raises(UnavailableError):
        rig.leader()


def test_a_partition_without_a_leader_is_not_to_be_had(rig: Rig) -> None:
    rig.view.say(-1, 6, ErrorCode.LEADER_NOT_AVAILABLE)
    with pytest.raises(UnavailableError):
        rig.leader()


def test_a_broker_that_refuses_may_say_who_leads(rig: Rig) -> None:
    rig.view.say(1, 5)
    rig.leader()
    rig.view.told(T0, LeaderIdAndEpoch(leader_id=4, leader_epoch=6), [NodeEndpoint(node_id=4, host="node-4", port=1)])
    assert rig.leader() == Leader(4, 6, ("node-4", 1))
    rig.view.told(T0, LeaderIdAndEpoch(leader_id=2, leader_epoch=5))
    assert rig.leader().node_id == 4


def test_what_brokers_say_of_leaders_is_remembered(rig: Rig) -> None:
    rig.view.say(2, 5)
    rig.leader()
    (seen,) = rig.history.acknowledged(LeaderSeen)
    assert (seen.broker, seen.partition, seen.leader, seen.epoch) == ("node-1", T0, 2, 5)
