"""Idempotence as a table: what a producer sent before, what it sends now, what becomes of it."""

import pytest

from ottla.errors import BrokerError, ErrorCode
from ottla.storage.producer_state import NO_OFFSET, OF_A_STRANGER, SEQUENCE_MAX, Ended, Marker, ProducerState

PID = 7
APPENDED = NO_OFFSET


def send(
    state: ProducerState,
    sequence: int,
    count: int = 1,
    *,
    epoch: int = 0,
    offset: int = 0,
    producer_id: int = PID,
    transactional: bool = False,
    check_sequence: bool = True,
    timestamp_ms: int = 1_000,
) -> int:
    return state.append(producer_id, epoch, sequence, count, offset, timestamp_ms, transactional, check_sequence)


def state_after(*batches: tuple[int, int, int]) -> ProducerState:
    """(epoch, first sequence number, count) of batches at the offsets 0, 10, 20…"""
    state = ProducerState()
    for number, (epoch, sequence, count) in enumerate(batches):
        assert send(state, sequence, count, epoch=epoch, offset=10 * number) in (APPENDED, OF_A_STRANGER)
    return state


@pytest.mark.parametrize(
    ("before", "epoch", "sequence", "count", "result"),
    [
        # In order
        ([], 0, 0, 1, APPENDED),
        ([(0, 0, 3)], 0, 3, 2, APPENDED),
        # Nothing is known of it, so nothing is expected: it may have been forgotten
        ([], 3, 17, 1, OF_A_STRANGER),
        # Repetitions of any of the last five
        ([(0, 0, 3)], 0, 0, 3, 0),
        ([(0, 0, 1), (0, 1, 1), (0, 2, 1), (0, 3, 1), (0, 4, 1)], 0, 0, 1, 0),
        ([(0, 0, 1), (0, 1, 1), (0, 2, 1), (0, 3, 1), (0, 4, 1)], 0, 4, 1, 40),
        # The sixth before is not remembered
        ([(0, n, 1) for n in range(6)], 0, 0, 1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        # The same first number but another length is not a repetition
        ([(0, 0, 3)], 0, 0, 2, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        # A gap
        ([(0, 0, 3)], 0, 4, 1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        # A new epoch starts at 0
        ([(0, 0, 3)], 1, 0, 1, APPENDED),
        ([(0, 0, 3)], 1, 3, 1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        # What was sent in an older epoch is not a repetition of this one
        ([(0, 0, 1), (1, 0, 1)], 1, 0, 1, 10),
        # An older epoch is fenced, even if the batch was once accepted
        ([(0, 0, 1), (1, 0, 1)], 0, 0, 1, ErrorCode.INVALID_PRODUCER_EPOCH),
        ([(5, 0, 1)], 4, 1, 1, ErrorCode.INVALID_PRODUCER_EPOCH),
        # Sequence numbers go round after the largest 32-bit integer
        ([(0, SEQUENCE_MAX, 1)], 0, 0, 1, APPENDED),
        ([(0, SEQUENCE_MAX - 1, 5)], 0, 3, 1, APPENDED),
        ([(0, SEQUENCE_MAX - 1, 5)], 0, SEQUENCE_MAX - 1, 5, 0),
        ([(0, SEQUENCE_MAX - 1, 5)], 0, SEQUENCE_MAX, 1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    ],
)
def test_what_becomes_of_a_batch(
    before: list[tuple[int, int, int]], epoch: int, sequence: int, count: int, result: int | ErrorCode
) -> None:
    state = state_after(*before)

    if isinstance(result, ErrorCode):
        with pytest.raises(BrokerError) as refused:
            send(state, sequence, count, epoch=epoch, offset=990)
        assert refused.value.code is result
    else:
        assert send(state, sequence, count, epoch=epoch, offset=990) == result


def test_a_refused_batch_changes_nothing() -> None:
    state = state_after((0, 0, 3))
    before = state.snapshot()

    for sequence, epoch in ((9, 0), (3, 1)):
        with pytest.raises(BrokerError):
            send(state, sequence, epoch=epoch)

    assert state.snapshot() == before


def test_producers_do_not_disturb_each_other() -> None:
    state = state_after((0, 0, 3))

    assert send(state, 0, producer_id=8, offset=50) == APPENDED
    assert send(state, 3, offset=51) == APPENDED


def test_a_coordinator_writes_without_sequence_numbers() -> None:
    state = state_after((0, 0, 3))

    assert send(state, -1, check_sequence=False, offset=50) == APPENDED
    with pytest.raises(BrokerError) as refused:
        send(state, -1, epoch=-1, check_sequence=False)
    assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH


# Forgetting


def test_a_silent_producer_is_forgotten_and_may_then_send_any_number() -> None:
    state = state_after((0, 0, 3))

    state.expire(now_ms=1_999, expiration_ms=1_000)
    assert len(state.producers) == 1
    state.expire(now_ms=2_000, expiration_ms=1_000)
    assert len(state.producers) == 0

    assert send(state, 17) == OF_A_STRANGER


def test_a_producer_with_an_open_transaction_is_not_forgotten() -> None:
    state = ProducerState()
    send(state, 0, transactional=True)

    state.expire(now_ms=10**15, expiration_ms=1)

    assert len(state.producers) == 1


# Transactions


def end(
    state: ProducerState, offset: int, *, commits: bool = True, producer_id: int = PID, epoch: int = 0
) -> Ended | None:
    return state.end_transaction(producer_id, epoch, Marker(commits, 0), offset, 2_000)


def test_a_transaction_is_unstable_from_its_first_batch_until_the_marker_is_replicated() -> None:
    state = ProducerState()
    assert state.first_unstable_offset(100) is None

    send(state, 0, offset=5, transactional=True)
    send(state, 1, offset=6, transactional=True)
    assert state.first_unstable_offset(100) == 5

    end(state, 9)
    assert state.first_unstable_offset(9) == 5
    assert state.first_unstable_offset(10) is None


def test_the_oldest_transaction_decides() -> None:
    state = ProducerState()
    send(state, 0, offset=5, transactional=True)
    send(state, 0, offset=6, transactional=True, producer_id=8)

    end(state, 7, producer_id=8)
    assert state.first_unstable_offset(100) == 5
    end(state, 8)
    assert state.first_unstable_offset(8) == 5
    assert state.first_unstable_offset(9) is None


def test_a_completed_transaction_is_forgotten_below_the_high_watermark() -> None:
    state = ProducerState()
    send(state, 0, offset=5, transactional=True)
    end(state, 9)

    state.forget_completed(9)
    assert state.has_transactions
    state.forget_completed(10)
    assert not state.has_transactions


def test_an_abort_says_what_it_ended_and_what_is_still_undecided() -> None:
    state = ProducerState()
    send(state, 0, offset=5, transactional=True)
    send(state, 0, offset=6, transactional=True, producer_id=8)

    assert end(state, 7, commits=False) == Ended(PID, 5, 7, True, 6)
    assert end(state, 9, commits=False, producer_id=8) == Ended(8, 6, 9, True, 10)


def test_a_marker_without_a_transaction_ends_nothing() -> None:
    assert end(ProducerState(), 5) is None


def test_a_marker_of_a_newer_epoch_starts_the_sequence_anew() -> None:
    state = ProducerState()
    send(state, 0, 5, offset=5, transactional=True)
    end(state, 10, epoch=1)

    with pytest.raises(BrokerError):
        send(state, 5, epoch=1, offset=11)
    assert send(state, 0, epoch=1, offset=11) == APPENDED


def test_a_marker_of_the_same_epoch_keeps_the_sequence() -> None:
    state = ProducerState()
    send(state, 0, 5, offset=5, transactional=True)
    end(state, 10)

    assert send(state, 0, 5, offset=11, transactional=True) == 5
    assert send(state, 5, offset=11, transactional=True) == APPENDED


def test_writing_outside_of_an_open_transaction_is_refused() -> None:
    state = ProducerState()
    send(state, 0, offset=5, transactional=True)

    with pytest.raises(BrokerError) as refused:
        send(state, 1, offset=6)

    assert refused.value.code is ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize(
    ("epoch", "coordinator_epoch", "code"),
    [(0, 5, ErrorCode.INVALID_PRODUCER_EPOCH), (1, 4, ErrorCode.TRANSACTION_COORDINATOR_FENCED)],
)
def test_a_marker_of_somebody_who_was_replaced_is_refused(epoch: int, coordinator_epoch: int, code: ErrorCode) -> None:
    state = ProducerState()
    send(state, 0, epoch=1, transactional=True)
    state.end_transaction(PID, 1, Marker(True, 5), 1, 0)

    with pytest.raises(BrokerError) as refused:
        state.check_marker(PID, epoch, Marker(True, coordinator_epoch))

    assert refused.value.code is code


# Snapshots


def test_a_snapshot_brings_back_every_remembered_batch_and_open_transactions() -> None:
    state = state_after((0, 0, 3), (0, 3, 2))
    send(state, 0, offset=30, producer_id=9, transactional=True)
    send(state, 0, offset=25, producer_id=8, transactional=True)

    restored = ProducerState.from_snapshot(state.snapshot())

    assert restored.snapshot() == state.snapshot()
    assert restored.first_unstable_offset(100) == 25
    assert send(restored, 3, 2, offset=40) == 10
    assert send(restored, 0, 3, offset=40) == 0
    assert send(restored, 5, offset=40) == APPENDED


def test_the_last_entry_of_a_producer_in_a_snapshot_is_its_newest_batch() -> None:
    """Kafka's tools keep the last entry that they read of a producer."""
    state = state_after((0, 0, 3), (0, 3, 2))

    assert [entry.last_sequence for entry in state.snapshot()] == [2, 4]


def test_a_snapshot_keeps_a_batch_whose_numbers_went_round() -> None:
    state = state_after((0, SEQUENCE_MAX - 1, 5))

    restored = ProducerState.from_snapshot(state.snapshot())

    assert send(restored, SEQUENCE_MAX - 1, 5) == 0


def test_a_snapshot_keeps_a_producer_of_which_only_a_marker_is_known() -> None:
    state = ProducerState()
    end(state, 5, epoch=3)

    restored = ProducerState.from_snapshot(state.snapshot())

    with pytest.raises(BrokerError):
        send(restored, 0, epoch=2)
    assert send(restored, 0, epoch=3) == APPENDED


def test_replayed_batches_give_the_same_state() -> None:
    state = state_after((0, 0, 3), (0, 3, 2), (1, 0, 1))
    replayed = ProducerState()

    replayed.replay(PID, 0, 0, 0, 2, timestamp_ms=1_000, transactional=False)
    replayed.replay(PID, 0, 3, 10, 11, timestamp_ms=1_000, transactional=False)
    replayed.replay(PID, 1, 0, 20, 20, timestamp_ms=1_000, transactional=False)

    assert replayed.snapshot() == state.snapshot()


# Transactions that begin


def test_a_transaction_is_open_in_the_epoch_that_began_it() -> None:
    state = ProducerState()
    assert not state.has_open_transaction(PID, 0)
    send(state, 0, transactional=True)
    assert state.has_open_transaction(PID, 0)
    assert not state.has_open_transaction(PID, 1)
    state.end_transaction(PID, 0, Marker(True, 1), 1, 1_000)
    assert not state.has_open_transaction(PID, 0)


def test_it_is_told_when_a_transaction_has_ended_meanwhile() -> None:
    state = ProducerState()
    before = state.markers_of(PID)
    send(state, 0, transactional=True)
    assert state.markers_of(PID) == before
    state.end_transaction(PID, 0, Marker(False, 1), 1, 1_000)
    assert state.markers_of(PID) != before


def test_a_batch_that_waits_for_the_coordinator_is_not_overtaken() -> None:
    state = ProducerState()
    state.expect(PID, 0, 5)
    state.expect(PID, 0, 7)
    with pytest.raises(BrokerError) as refused:
        state.check_expected(PID, 0, 7)
    assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    state.check_expected(PID, 0, 5)
    send(state, 5, transactional=True)
    state.check_expected(PID, 0, 7)


def test_a_new_epoch_waits_for_nothing_of_the_old() -> None:
    state = ProducerState()
    state.expect(PID, 0, 5)
    state.expect(PID, 1, 9)
    state.check_expected(PID, 1, 9)


def test_nobody_begins_a_transaction_of_which_no_coordinator_was_asked() -> None:
    state = ProducerState()
    with pytest.raises(BrokerError) as refused:
        state.require_transaction(PID, 0)
    assert refused.value.code is ErrorCode.INVALID_TXN_STATE
    state.expect(PID, 0, 0)
    state.require_transaction(PID, 0)
    send(state, 0, transactional=True)
    state.require_transaction(PID, 0)
