"""Transactions that take too long, and ids that nobody uses."""

from ottla.config import TransactionConfig
from ottla.errors import ErrorCode
from ottla.transactions.transaction import Producer
from tests.transactions.harness import FIRST_PRODUCER_ID, P0, P1, TIMEOUT_MS, Host, worn_out_producer


def test_a_transaction_that_takes_too_long_is_aborted() -> None:
    host = Host()
    producer = host.producer()
    host.add(producer, P0)
    host.after(TIMEOUT_MS - 1)
    assert host.state == "Ongoing"
    host.after(1)
    assert host.state == "PrepareAbort"
    host.write_markers()
    assert host.end(producer, commits=True).error_code == ErrorCode.PRODUCER_FENCED
    assert host.end(producer, commits=False).error_code == ErrorCode.PRODUCER_FENCED
    assert host.add(producer, P0) is ErrorCode.PRODUCER_FENCED


def test_the_time_runs_from_the_first_partition() -> None:
    host = Host()
    producer = host.producer()
    host.add(producer, P0)
    host.after(TIMEOUT_MS // 2)
    host.add(producer, P1)
    host.after(TIMEOUT_MS // 2)
    assert host.state == "PrepareAbort"


def test_a_transaction_that_ended_in_time_does_not_shorten_the_next() -> None:
    host = Host()
    producer = host.producer()
    host.add(producer, P0)
    host.after(TIMEOUT_MS - 1)
    producer = host.commit(producer)
    host.add(producer, P0)
    host.after(TIMEOUT_MS - 1)
    assert host.state == "Ongoing"


def test_a_clock_that_was_wrong_does_not_keep_a_transaction_open() -> None:
    host = Host()
    host.now_ms += 10 * TIMEOUT_MS
    host.add(host.producer(), P0)
    host.now_ms -= 10 * TIMEOUT_MS
    host.fail_over()
    host.after(TIMEOUT_MS - 1)
    assert host.state == "Ongoing"
    host.after(1)
    assert host.state == "PrepareAbort"


def test_a_time_out_at_the_last_epoch_still_fences() -> None:
    host = Host()
    producer = worn_out_producer(host)
    host.add(producer, P0)
    host.after(TIMEOUT_MS)
    host.write_markers()
    assert host.end(producer, commits=False).error_code == ErrorCode.PRODUCER_FENCED
    assert host.producer() == Producer(FIRST_PRODUCER_ID + 1, 0)


def test_an_id_that_nobody_uses_is_forgotten() -> None:
    host = Host(TransactionConfig(transactional_id_expiration_ms=1_000, transaction_remove_expired_interval_ms=100))
    host.producer()
    host.after(900)
    assert host.state == "Empty"
    host.after(200)
    assert host.describe().error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert host.log[-1][1] is None


def test_an_id_with_an_open_transaction_is_not_forgotten() -> None:
    host = Host(TransactionConfig(transactional_id_expiration_ms=1_000, transaction_remove_expired_interval_ms=100))
    host.add(host.producer(), P0)
    host.after(5_000)
    assert host.state == "Ongoing"
