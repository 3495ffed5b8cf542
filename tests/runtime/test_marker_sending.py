"""Markers find their partitions, wherever those are led by then."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla.runtime.marker_sending import UNKNOWN_MS_MAX, MarkerSender
from ottla.services import Deferred
from ottla.transactions.markers import Marker
from ottla.transactions.transaction import Producer
from ottla.types import TopicPartition

HERE, THERE, ELSEWHERE, NOBODY = 1, 2, 3, -1
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
MARKER = Marker(Producer(7, 3), True, 5, 2)


class World:
    """What a sender sees: who leads what, and brokers that answer as a test says."""

    def __init__(self) -> None:
        self.leaders: dict[TopicPartition, int] = {P0: HERE, P1: THERE}
        self.brokers = {HERE: "a", THERE: "b", ELSEWHERE: "c"}
        self.knows_all = True
        self.now_s = 0.0
        self.later: list[tuple[float, Callable[[], None]]] = []
        self.written: list[tuple[str, TopicPartition]] = []
        self.refusals: dict[tuple[str, TopicPartition], list[ErrorCode]] = {}
        """What a broker says first, before it takes the marker."""
        self.silent: set[str] = set()
        self.is_wanted = True
        self._ends: list[str] = []
        self.sender = MarkerSender(
            node_id=HERE,
            image=lambda: self,  # type: ignore[arg-type, return-value]  # it is asked for two things only
            image_is_newest=lambda: self.knows_all,
            writer=self,  # type: ignore[arg-type]
            client=SimpleNamespace(send=self.send),  # type: ignore[arg-type]
            timers=self,  # type: ignore[arg-type]
            now_s=lambda: self.now_s,
        )

    # An image

    def partition(self, topic: str, index: int) -> Any:
        leader = self.leaders.get(TopicPartition(topic, index))
        return None if leader is None else SimpleNamespace(leader=leader)

    # Timers

    def after_ms(self, delay_ms: int, action: Callable[[], None]) -> None:
        self.later.append((self.now_s + delay_ms / 1000, action))

    def let_time_pass(self, seconds: float) -> None:
        until = self.now_s + seconds
        while self.later and min(self.later, key=lambda due: due[0])[0] <= until:
            due = min(self.later, key=lambda due: due[0])
            self.later.remove(due)
            self.now_s = max(self.now_s, due[0])
            due[1]()
        self.now_s = until

    # The log of this node, and other nodes

    def _take(self, broker: str, at: TopicPartition) -> ErrorCode:
        refusals = self.refusals.get((broker, at))
        if refusals:
            return refusals.pop(0)
        self.written.append((broker, at))
        return ErrorCode.NONE

    def write(self, at: TopicPartition, _marker: Marker) -> Deferred[ErrorCode]:
        answer: Deferred[ErrorCode] = Deferred()
        answer.complete(self._take("a", at))
        return answer

    def send(self, address: str, request: WriteTxnMarkersRequest, **_: object) -> Deferred[WriteTxnMarkersResponse]:
        answer: Deferred[WriteTxnMarkersResponse] = Deferred()
        if address in self.silent:
            self.after_ms(10_000, lambda: answer.complete(None))  # type: ignore[arg-type]  # as one that was given up
            return answer
        answer.complete(
            WriteTxnMarkersResponse(
                markers=[
                    WritableTxnMarkerResult(
                        producer_id=marker.producer_id,
                        topics=[
                            WritableTxnMarkerTopicResult(
                                name=topic.name,
                                partitions=[
                                    WritableTxnMarkerPartitionResult(
                                        partition_index=index,
                                        error_code=self._take(address, TopicPartition(topic.name, index)),
                                    )
                                    for index in topic.partition_indexes
                                ],
                            )
                            for topic in marker.topics
                        ],
                    )
                    for marker in request.markers
                ]
            )
        )
        return answer

    def ends(self) -> int:
        """How often it was said that all have their markers."""
        return len(self._ends)

    def begin(self, *partitions: TopicPartition) -> None:
        def done() -> None:
            self._ends.append("x")

        self.sender.send("x", MARKER, set(partitions), is_wanted=lambda: self.is_wanted, on_done=done)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    monkeypatch.setattr(
        "ottla.runtime.marker_sending.client_address", lambda _image, node_id: made.brokers.get(node_id)
    )
    return made


def test_every_leader_gets_its_own(world: World) -> None:
    world.begin(P0, P1)
    world.let_time_pass(0.01)

    assert sorted(world.written) == [("a", P0), ("b", P1)]
    assert world.ends() == 1


@pytest.mark.parametrize("was_led_by", [HERE, THERE])
def test_a_leader_that_just_moved_is_found_where_it_is_now(world: World, was_led_by: int) -> None:
    world.leaders = {P0: was_led_by}
    broker = world.brokers[was_led_by]
    world.refusals[broker, P0] = [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 3
    world.begin(P0)
    world.let_time_pass(0.05)
    assert not world.ends()

    world.leaders = {P0: ELSEWHERE}
    world.let_time_pass(1)

    assert world.written == [("c", P0)]
    assert world.ends() == 1


def test_a_leader_that_does_not_answer_is_asked_again_and_then_its_successor(world: World) -> None:
    world.silent = {"b"}
    world.begin(P1)
    world.let_time_pass(9)
    world.leaders = {P1: ELSEWHERE}
    world.let_time_pass(2)

    assert world.written == [("c", P1)]
    assert world.ends() == 1


def test_a_partition_without_a_leader_waits_for_one(world: World) -> None:
    world.leaders = {P0: NOBODY}
    world.begin(P0)
    world.let_time_pass(30)
    assert not world.ends()

    world.leaders = {P0: THERE}
    world.let_time_pass(2)

    assert world.written == [("b", P0)]
    assert world.ends() == 1


def test_a_broker_whose_address_is_not_known_yet_is_waited_for(world: World) -> None:
    world.brokers.pop(THERE)
    world.begin(P1)
    world.let_time_pass(1)
    assert not world.ends()

    world.brokers[THERE] = "b"
    world.let_time_pass(2)

    assert world.written == [("b", P1)]


def test_what_was_deleted_needs_none_once_that_is_certain(world: World) -> None:
    world.leaders, world.knows_all = {P0: HERE}, False
    world.begin(P0, P1)
    world.let_time_pass(1)
    assert not world.ends()

    world.let_time_pass(UNKNOWN_MS_MAX / 1000 + 1)

    assert world.written == [("a", P0)]
    assert world.ends() == 1


def test_where_a_later_producer_has_written_it_has_ended_already(world: World) -> None:
    world.refusals["b", P1] = [ErrorCode.INVALID_PRODUCER_EPOCH]
    world.begin(P0, P1)
    world.let_time_pass(0.1)

    assert world.ends() == 1


def test_a_coordinator_that_was_replaced_gives_up(world: World) -> None:
    world.refusals["b", P1] = [ErrorCode.TRANSACTION_COORDINATOR_FENCED]
    world.begin(P0, P1)
    world.let_time_pass(60)

    assert world.written == [("a", P0)]
    assert not world.ends()


def test_nothing_is_tried_again_when_nobody_wants_it_any_more(world: World) -> None:
    world.leaders = {P0: NOBODY}
    world.begin(P0)
    world.is_wanted = False
    world.leaders = {P0: HERE}
    world.let_time_pass(60)

    assert not world.written
    assert not world.ends()
    assert not world.later


def test_what_goes_to_the_same_node_shares_a_request(world: World) -> None:
    asked: list[int] = []
    send = world.sender._client.send

    def counted(address: Any, request: Any, **how: Any) -> Any:
        asked.append(len(request.markers))
        return send(address, request, **how)

    world.sender._client = SimpleNamespace(send=counted)  # type: ignore[assignment]
    for _ in range(3):
        world.begin(P1)
    world.let_time_pass(0.1)

    assert asked == [3]
    assert world.ends() == 3
