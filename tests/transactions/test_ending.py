"""Commits and aborts that come twice, late or for nothing, in both versions of the protocol."""

import pytest

from ottla.errors import ErrorCode
from ottla.transactions.transaction import Producer
from tests.transactions.harness import FIRST_PRODUCER_ID, P0, P1, Host, worn_out_producer

# The end, in version 1


def test_v1_the_epoch_stays_over_transactions() -> None:
    host = Host()
    producer = host.producer()
    for _ in range(3):
        host.add(producer, P0, version=0)
        assert host.commit(producer, version=0) == producer


@pytest.mark.parametrize("commits", [True, False])
def test_v1_a_repetition_is_known_by_the_state(commits: bool) -> None:
    host = Host()
    producer = host.producer()
    host.add(producer, P0, version=0)
    host.end(producer, commits, version=0)
    again, other = host.ask_end(producer, commits, 0), host.ask_end(producer, not commits, 0)
    assert again.waits
    assert other.answer.error_code == ErrorCode.INVALID_TXN_STATE
    host.write_markers()
    assert again.answer.error_code == ErrorCode.NONE
    assert host.end(producer, commits, version=0).error_code == ErrorCode.NONE
    assert host.end(producer, not commits, version=0).error_code == ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("commits", [True, False])
def test_v1_there_is_nothing_to_end_without_a_transaction(commits: bool) -> None:
    host = Host()
    assert host.end(host.producer(), commits, version=0).error_code == ErrorCode.INVALID_TXN_STATE


# The end, in version 2


def test_v2_every_transaction_raises_the_epoch() -> None:
    host = Host()
    producer = host.producer()
    for epoch in range(1, 4):
        host.add(producer, P0)
        producer = host.commit(producer)
        assert producer == Producer(FIRST_PRODUCER_ID, epoch)


def test_v2_the_epoch_of_the_last_transaction_is_good_for_nothing() -> None:
    host = Host()
    producer = host.producer()
    host.add(producer, P0)
    host.commit(producer)
    assert host.add(producer, P0) is ErrorCode.PRODUCER_FENCED


ABORT, COMMIT = False, True


@pytest.mark.parametrize(
    ("last", "asked", "repeated", "code"),
    [
        (None, ABORT, True, ErrorCode.PRODUCER_FENCED),
        (None, ABORT, False, ErrorCode.NONE),
        (None, COMMIT, True, ErrorCode.PRODUCER_FENCED),
        (None, COMMIT, False, ErrorCode.INVALID_TXN_STATE),
        (ABORT, ABORT, True, ErrorCode.NONE),
        (ABORT, ABORT, False, ErrorCode.NONE),
        (ABORT, COMMIT, True, ErrorCode.INVALID_TXN_STATE),
        (ABORT, COMMIT, False, ErrorCode.INVALID_TXN_STATE),
        (COMMIT, ABORT, True, ErrorCode.INVALID_TXN_STATE),
        (COMMIT, ABORT, False, ErrorCode.NONE),
        (COMMIT, COMMIT, True, ErrorCode.NONE),
        (COMMIT, COMMIT, False, ErrorCode.INVALID_TXN_STATE),
    ],
)
def test_v2_an_end_without_a_transaction(last: bool | None, asked: bool, repeated: bool, code: ErrorCode) -> None:
    """Kafka's table: the state, what is asked for, and whether with the epoch before the last end."""
    host = Host()
    producer = host.producer()
    if last is not None:
        host.add(producer, P0)
        host.end(producer, last)
        host.write_markers()
        producer = Producer(producer.producer_id, producer.epoch + 1)
    else:
        producer = host.producer()
    client = Producer(producer.producer_id, producer.epoch - repeated)
    answer = host.end(client, asked)
    assert answer.error_code == code
    if code is ErrorCode.NONE:
        assert answer.producer_epoch == producer.epoch + (not repeated)


def test_v2_a_repetition_waits_for_the_markers_and_hears_the_same() -> None:
    host = Host()
    producer = host.producer()
    host.add(producer, P0)
    first = host.end(producer, commits=True)
    again = host.ask_end(producer, commits=True)
    assert host.end(producer, commits=False).error_code == ErrorCode.INVALID_TXN_STATE
    host.write_markers()
    assert again.answer == first


def test_v2_an_abort_of_the_next_one_waits_for_the_markers_of_the_last() -> None:
    host = Host()
    producer = host.producer()
    host.add(producer, P0)
    host.end(producer, commits=True)
    waiting = host.ask_end(Producer(producer.producer_id, 1), commits=False)
    host.write_markers()
    assert waiting.answer.error_code == ErrorCode.NONE
    assert waiting.answer.producer_epoch == 2


def test_v2_an_abort_without_a_transaction_writes_no_marker() -> None:
    host = Host()
    producer = host.producer()
    host.end(producer, commits=False)
    assert [markers.partitions for markers in host.write_markers()] == [frozenset()]
    assert host.state == "CompleteAbort"


def test_v2_after_the_last_epoch_comes_a_new_producer_id() -> None:
    host = Host()
    worn_out = worn_out_producer(host)
    host.add(worn_out, P0)
    answer = host.end(worn_out, commits=True)
    fresh = Producer(FIRST_PRODUCER_ID + 1, 0)
    assert Producer(answer.producer_id, answer.producer_epoch) == fresh
    waiting = host.ask_add(fresh, P1)
    again = host.ask_end(worn_out, commits=True)
    (markers,) = host.write_markers()
    assert markers.producer == Producer(worn_out.producer_id, worn_out.epoch + 1)
    assert waiting.answer is ErrorCode.NONE
    assert again.answer.error_code == ErrorCode.PRODUCER_FENCED  # the next transaction is open by now


def test_v2_a_repetition_after_the_last_epoch_is_known() -> None:
    host = Host()
    worn_out = worn_out_producer(host)
    host.add(worn_out, P0)
    first = host.end(worn_out, commits=True)
    host.write_markers()
    host.fail_over()
    assert host.end(worn_out, commits=True) == first
