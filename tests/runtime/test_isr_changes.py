"""What a leader asks the controller for. The controller is the test."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from ottla.config.replication import ReplicationConfig
from ottla.errors import BrokerError, ErrorCode
from ottla.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    ResponsePartitionData,
    ResponseTopicData,
)
from ottla.runtime.isr_changes import REFUSED_MS, IsrChanges
from ottla.services import Deferred
from tests.replication.cluster import TOPIC_ID, Replicas

LAG_MS = 10_000


class Rig:
    def __init__(self, *partitions: Replicas) -> None:
        self.partitions = partitions or (Replicas(),)
        self.actions: list[Callable[[], None]] = []
        self.asked: list[tuple[AlterPartitionRequest, Deferred[Any]]] = []
        self.is_active = {1: True, 2: True, 3: True}
        self.changes = IsrChanges(
            node_id=1,
            broker_epoch=lambda: 1,
            image=lambda: cast(Any, self),
            send=self._send,
            led=lambda: [replicas.leader for replicas in self.partitions],
            config=ReplicationConfig(replica_lag_time_max_ms=LAG_MS),
            clock=cast(Any, SimpleNamespace(monotonic_ms=lambda: self.partitions[0].now_ms)),
            timers=cast(Any, self),
            loop=cast(Any, self),
        )

    def call_soon(self, action: Callable[[], None]) -> None:
        self.actions.append(action)

    def after_ms(self, _: float, action: Callable[[], None]) -> None:
        self.actions.append(action)

    @property
    def brokers(self) -> dict[int, Any]:
        return {node: SimpleNamespace(is_active=active, broker_epoch=1) for node, active in self.is_active.items()}

    def _send(self, request: AlterPartitionRequest, *, timeout_ms: int) -> Deferred[Any]:
        assert timeout_ms > 0
        answer: Deferred[Any] = Deferred()
        self.asked.append((request, answer))
        return answer

    def turn(self) -> None:
        actions, self.actions = self.actions, []
        for action in actions:
            action()

    def pass_ms(self, passed_ms: int) -> None:
        for replicas in self.partitions:
            replicas.now_ms += passed_ms

    def proposal(self) -> list[list[int]]:
        """What was last asked for, of each partition."""
        request, _ = self.asked[-1]
        return [
            [state.broker_id for state in asked.new_isr_with_epochs]
            for topic in request.topics
            for asked in topic.partitions
        ]

    def answer(self, code: ErrorCode = ErrorCode.NONE, *, isr: tuple[int, ...] = (), epoch: int = 0) -> None:
        told = ResponsePartitionData(error_code=code, isr=isr, partition_epoch=epoch)
        topic = ResponseTopicData(topic_id=TOPIC_ID, partitions=[told])
        self.asked[-1][1].complete(AlterPartitionResponse(topics=[topic]))


def lagging() -> Rig:
    """Node 3 has been behind for too long."""
    rig = Rig()
    replicas = rig.partitions[0]
    replicas.copy(2)
    replicas.copy(3)
    replicas.produce(b"a")
    rig.pass_ms(LAG_MS // 2)
    rig.changes.look()
    rig.pass_ms(LAG_MS // 2 + 1)
    replicas.copy(2, rounds=2)
    return rig


def test_a_node_that_stood_still_removes_nobody() -> None:
    rig = lagging()
    rig.pass_ms(LAG_MS + 1)
    rig.changes.look()
    rig.turn()
    assert rig.asked == []
    rig.pass_ms(LAG_MS // 2)
    rig.changes.look()
    rig.turn()
    assert rig.proposal() == [[1]]


def test_one_that_lags_is_proposed_to_be_removed_and_is_when_the_controller_says_so() -> None:
    rig = lagging()
    leader = rig.partitions[0].leader
    rig.changes.look()
    rig.turn()
    assert rig.proposal() == [[1, 2]]
    assert leader.high_watermark == 0
    rig.answer(isr=(1, 2), epoch=leader.partition_epoch + 1)
    assert (leader.isr, leader.high_watermark) == ((1, 2), 1)


def test_what_the_controller_did_not_answer_is_asked_again() -> None:
    rig = lagging()
    rig.changes.look()
    rig.turn()
    rig.asked[-1][1].fail(BrokerError(ErrorCode.REQUEST_TIMED_OUT))
    rig.turn()
    assert len(rig.asked) == 2
    assert rig.proposal() == [[1, 2]]


def test_one_request_at_a_time() -> None:
    rig = lagging()
    rig.changes.look()
    rig.turn()
    rig.changes.look()
    rig.turn()
    assert len(rig.asked) == 1


def test_what_the_metadata_has_answered_is_not_asked_again() -> None:
    rig = lagging()
    rig.changes.look()
    rig.partitions[0].set_isr(1, 2)
    rig.turn()
    assert rig.asked == []


def caught_up() -> Rig:
    """Node 3 is not in sync by what the controller knows, and has everything."""
    rig = Rig()
    replicas = rig.partitions[0]
    replicas.set_isr(1, 2)
    replicas.produce(b"a")
    replicas.copy(2, rounds=2)
    replicas.copy(3, rounds=2)
    return rig


def test_one_that_has_caught_up_is_proposed_with_its_epoch() -> None:
    rig = caught_up()
    leader = rig.partitions[0].leader
    rig.changes.caught_up(leader, leader.followers[3])
    rig.turn()
    assert rig.proposal() == [[1, 2, 3]]
    asked = rig.asked[-1][0].topics[0].partitions[0]
    assert [state.broker_epoch for state in asked.new_isr_with_epochs] == [1, 1, 1]
    assert (asked.leader_epoch, asked.partition_epoch) == (leader.leader_epoch, leader.partition_epoch)


def test_one_that_is_fenced_is_proposed_when_it_is_back() -> None:
    rig = caught_up()
    leader = rig.partitions[0].leader
    rig.is_active[3] = False
    rig.changes.caught_up(leader, leader.followers[3])
    rig.turn()
    assert rig.asked == []
    rig.is_active[3] = True
    rig.changes.brokers_changed([3])
    rig.turn()
    assert rig.proposal() == [[1, 2, 3]]


def test_one_that_the_controller_refuses_is_proposed_again_after_a_while() -> None:
    rig = caught_up()
    leader = rig.partitions[0].leader
    rig.changes.caught_up(leader, leader.followers[3])
    rig.turn()
    rig.answer(ErrorCode.INELIGIBLE_REPLICA)
    assert leader.proposed_isr is None
    rig.changes.caught_up(leader, leader.followers[3])
    assert leader.proposed_isr is None
    rig.pass_ms(REFUSED_MS)
    rig.turn()
    rig.turn()
    assert len(rig.asked) == 2


def test_a_proposal_that_came_too_late_counts_until_the_metadata_tells() -> None:
    """It may have been granted by an earlier request whose answer was lost."""
    rig = caught_up()
    leader = rig.partitions[0].leader
    rig.changes.caught_up(leader, leader.followers[3])
    rig.turn()
    rig.answer(ErrorCode.INVALID_UPDATE_VERSION)
    assert leader.proposed_isr == (1, 2, 3)
    rig.partitions[0].set_isr(1, 2, 3)
    assert leader.proposed_isr is None


def test_two_that_have_caught_up_are_proposed_one_after_the_other() -> None:
    rig = Rig()
    replicas = rig.partitions[0]
    replicas.set_isr(1)
    replicas.copy(2, rounds=2)
    replicas.copy(3, rounds=2)
    leader = replicas.leader
    for follower in leader.followers.values():
        rig.changes.caught_up(leader, follower)
    rig.turn()
    assert rig.proposal() == [[1, 2]]
    rig.answer(isr=(1, 2), epoch=leader.partition_epoch + 1)
    rig.turn()
    assert rig.proposal() == [[1, 2, 3]]
