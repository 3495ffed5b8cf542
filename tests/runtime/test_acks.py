"""Answers that wait for the high watermark. Time is the test's own."""

from collections.abc import Callable
from typing import Any, cast

from ottla.errors import BrokerError, ErrorCode
from ottla.observability.metrics import Refusals
from ottla.runtime.acks import CommitAcks
from ottla.services import Deferred
from tests.replication.cluster import Replicas

TIMEOUT_MS = 1_000


class Rig:
    def __init__(self) -> None:
        self.now_ms = 0
        self.actions: list[Callable[[], None]] = []
        self.refusals = Refusals()
        self.acks = CommitAcks(clock=cast(Any, self), timers=cast(Any, self), refusals=self.refusals)
        self.refused: list[tuple[str, ErrorCode]] = []

    def monotonic_ms(self) -> int:
        return self.now_ms

    def after_ms(self, _: float, action: Callable[[], None]) -> None:
        self.actions.append(action)

    def look(self) -> None:
        actions, self.actions = self.actions, []
        for action in actions:
            action()

    def wait(self, *waits: tuple[Replicas, int, str]) -> Deferred[str]:
        of_partitions = [(replicas.leader, offset, name) for replicas, offset, name in waits]
        return self.acks.when_committed("answer", of_partitions, self._refuse, TIMEOUT_MS)

    def wait_for_one(self, replicas: Replicas, offset: int) -> Deferred[str]:
        return self.acks.when_one_committed("answer", replicas.leader, offset, _told, TIMEOUT_MS)

    def _refuse(self, name: str, error: BrokerError) -> None:
        self.refused.append((name, error.code))


def _told(answer: str, error: BrokerError) -> str:
    return f"{answer}: {error.code.name}"


def commit(replicas: Replicas) -> None:
    for node in replicas.leader.followers:
        replicas.copy(node, rounds=2)


def test_the_answer_comes_when_all_partitions_are_committed() -> None:
    rig, first, second = Rig(), Replicas(), Replicas()
    answer = rig.wait((first, first.produce(b"a") + 1, "first"), (second, second.produce(b"a") + 1, "second"))
    commit(first)
    assert not answer.done
    commit(second)
    assert (answer.value, rig.refused) == ("answer", [])


def test_what_is_committed_is_answered_at_once_and_leaves_no_timer() -> None:
    rig, replicas = Rig(), Replicas()
    replicas.produce(b"a")
    commit(replicas)
    assert rig.wait((replicas, 1, "a")).done
    assert rig.actions == []


def test_when_time_is_up_what_is_not_committed_is_refused() -> None:
    rig, slow, quick = Rig(), Replicas(), Replicas()
    answer = rig.wait((slow, slow.produce(b"a") + 1, "slow"), (quick, quick.produce(b"a") + 1, "quick"))
    commit(quick)
    rig.now_ms = TIMEOUT_MS - 1
    rig.look()
    assert not answer.done
    rig.now_ms = TIMEOUT_MS
    rig.look()
    assert (answer.done, rig.refused) == (True, [("slow", ErrorCode.REQUEST_TIMED_OUT)])
    commit(slow)
    assert rig.refused == [("slow", ErrorCode.REQUEST_TIMED_OUT)], "too late to say anything else"
    assert rig.actions == [], "nobody waits, so nobody looks"


def test_the_end_of_leadership_is_told() -> None:
    rig, replicas = Rig(), Replicas()
    answer = rig.wait((replicas, replicas.produce(b"a") + 1, "a"))
    replicas.elect(2)
    assert (answer.done, rig.refused) == (True, [("a", ErrorCode.NOT_LEADER_OR_FOLLOWER)])


def test_one_that_was_committed_with_too_few_left_is_told_so() -> None:
    rig, replicas = Rig(), Replicas(min_insync_replicas=2)
    offset = replicas.produce(b"a") + 1
    commit(replicas)
    replicas.set_isr(1)
    answer = rig.wait((replicas, offset, "a"))
    assert (answer.done, rig.refused) == (True, [("a", ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)])


def test_one_alone_is_answered_when_it_is_committed() -> None:
    rig, replicas = Rig(), Replicas()
    answer = rig.wait_for_one(replicas, replicas.produce(b"a") + 1)
    assert not answer.done
    commit(replicas)
    assert answer.value == "answer"
    rig.look()
    assert rig.actions == [], "nobody waits, so nobody looks"
    assert rig.wait_for_one(replicas, 1).done


def test_one_alone_is_refused_when_its_time_is_up_and_not_again() -> None:
    rig, replicas = Rig(), Replicas()
    answer = rig.wait_for_one(replicas, replicas.produce(b"a") + 1)
    rig.now_ms = TIMEOUT_MS - 1
    rig.look()
    assert not answer.done
    rig.now_ms = TIMEOUT_MS
    rig.look()
    assert answer.value == "answer: REQUEST_TIMED_OUT"
    commit(replicas)
    assert answer.value == "answer: REQUEST_TIMED_OUT"


def test_one_alone_is_told_of_the_end_of_leadership_and_of_too_few_left() -> None:
    rig, replicas = Rig(), Replicas()
    answer = rig.wait_for_one(replicas, replicas.produce(b"a") + 1)
    replicas.elect(2)
    assert answer.value == "answer: NOT_LEADER_OR_FOLLOWER"
    replicas = Replicas(min_insync_replicas=2)
    offset = replicas.produce(b"a") + 1
    commit(replicas)
    replicas.set_isr(1)
    assert rig.wait_for_one(replicas, offset).value == "answer: NOT_ENOUGH_REPLICAS_AFTER_APPEND"
