"""Producer ids from blocks of the controller."""

from typing import Any, cast

from ottla.errors import BrokerError, ErrorCode
from ottla.protocol.messages.allocate_producer_ids import AllocateProducerIdsResponse
from ottla.runtime.producer_ids import ProducerIds
from ottla.services import Deferred

BLOCK = 100


class Rig:
    def __init__(self) -> None:
        self.epoch = 4
        self.sent: list[tuple[int, int]] = []
        self.waiting: list[Deferred[AllocateProducerIdsResponse]] = []
        self.ids = ProducerIds(channel=cast(Any, self), broker_id=7, broker_epoch=lambda: self.epoch)

    def send(self, request: Any, *, timeout_ms: int) -> Deferred[Any]:
        self.sent.append((request.broker_id, request.broker_epoch))
        self.waiting.append(Deferred())
        return self.waiting[-1]

    def grant(self, first: int) -> None:
        self.waiting.pop(0).complete(AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=BLOCK))


def test_ids_wait_for_a_block_and_are_given_in_order() -> None:
    rig = Rig()
    ids = [rig.ids.next_id() for _ in range(3)]
    assert rig.sent == [(7, 4)]
    rig.grant(1_000)
    assert [one.value for one in ids] == [1_000, 1_001, 1_002]
    assert rig.ids.next_id().value == 1_003
    assert len(rig.sent) == 1


def test_more_who_wait_than_a_block_has_get_the_next_one() -> None:
    rig = Rig()
    ids = [rig.ids.next_id() for _ in range(BLOCK + 50)]
    rig.grant(0)
    rig.grant(500)
    assert [one.value for one in ids] == [*range(BLOCK), *range(500, 550)]


def test_the_next_block_is_asked_for_before_this_one_is_used_up() -> None:
    rig = Rig()
    first = rig.ids.next_id()
    rig.grant(0)
    assert first.value == 0
    given = [rig.ids.next_id().value for _ in range(95)]
    assert len(rig.sent) == 2
    rig.grant(900)
    given += [rig.ids.next_id().value for _ in range(10)]
    assert given == [*range(1, BLOCK), *range(900, 906)]
    assert len(rig.sent) == 2


def test_a_refused_block_is_told_as_something_that_clients_try_again() -> None:
    rig = Rig()
    first = rig.ids.next_id()
    rig.waiting.pop(0).complete(AllocateProducerIdsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    second = rig.ids.next_id()
    rig.waiting.pop(0).fail(BrokerError(ErrorCode.REQUEST_TIMED_OUT))
    for refused in (first, second):
        assert refused.error is not None
        assert refused.error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    rig.epoch = 5
    third = rig.ids.next_id()
    rig.grant(10)
    assert third.value == 10
    assert rig.sent == [(7, 4), (7, 4), (7, 5)]


def test_a_disk_that_failed_is_told_as_such() -> None:
    rig = Rig()
    refused = rig.ids.next_id()
    rig.waiting.pop(0).fail(BrokerError(ErrorCode.KAFKA_STORAGE_ERROR))
    assert refused.error is not None
    assert refused.error.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_refused_reserve_hurts_nobody_who_has_ids_left() -> None:
    rig = Rig()
    rig.ids.next_id()
    rig.grant(0)
    for _ in range(90):
        rig.ids.next_id()
    rig.waiting.pop(0).fail(BrokerError(ErrorCode.REQUEST_TIMED_OUT))
    assert rig.ids.next_id().value == 91
