"""Transactions that wait for a decision from outside (KIP-939)."""

from ottla.config import TransactionConfig
from ottla.errors import ErrorCode
from ottla.transactions.transaction import NEVER_TIMES_OUT_MS, Producer
from tests.transactions.harness import FIRST_PRODUCER_ID, P0, P1, Host, worn_out_producer


def test_two_phases_can_be_forbidden() -> None:
    answer = Host(TransactionConfig(transaction_two_phase_commit_enable=False)).init(enable2_pc=True)
    assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_a_prepared_transaction_never_times_out() -> None:
    host = Host()
    host.add(host.producer(enable2_pc=True), P0)
    host.after(NEVER_TIMES_OUT_MS)
    assert host.state == "Ongoing"


def test_a_new_instance_takes_over_what_was_prepared_and_ends_it() -> None:
    host = Host()
    writer = host.producer(enable2_pc=True)
    host.add(writer, P0)
    answer = host.init(enable2_pc=True, keep_prepared_txn=True)
    assert Producer(answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch) == writer
    heir = Producer(answer.producer_id, answer.producer_epoch)
    assert heir == Producer(writer.producer_id, 1)
    assert host.end(writer, commits=True).error_code == ErrorCode.PRODUCER_FENCED
    assert host.add(heir, P1) is ErrorCode.INVALID_TXN_STATE
    host.fail_over()
    ended = host.end(heir, commits=True)
    (markers,) = host.write_markers()
    assert markers.producer == Producer(writer.producer_id, writer.epoch + 1)
    after = Producer(ended.producer_id, ended.producer_epoch)
    assert after == Producer(writer.producer_id, 2)
    assert host.end(heir, commits=True) == ended
    assert host.add(after, P1) is ErrorCode.NONE


def test_it_may_be_taken_over_any_number_of_times() -> None:
    host = Host()
    writer = host.producer(enable2_pc=True)
    host.add(writer, P0)
    for epoch in range(1, 5):
        answer = host.init(enable2_pc=True, keep_prepared_txn=True)
        assert (answer.producer_epoch, answer.ongoing_txn_producer_epoch) == (epoch, writer.epoch)
    assert host.end(Producer(writer.producer_id, 3), commits=True).error_code == ErrorCode.PRODUCER_FENCED
    assert host.end(Producer(writer.producer_id, 4), commits=False).error_code == ErrorCode.NONE
    (markers,) = host.write_markers()
    assert not markers.commits


def test_who_does_not_keep_it_aborts_it() -> None:
    host = Host()
    writer = host.producer(enable2_pc=True)
    host.add(writer, P0)
    answer = host.init(enable2_pc=True, keep_prepared_txn=True)
    heir = Producer(answer.producer_id, answer.producer_epoch)
    starting = host.ask_init(enable2_pc=True)
    host.write_markers()
    assert host.end(heir, commits=True).error_code == ErrorCode.PRODUCER_FENCED
    assert starting.answer.producer_epoch > heir.epoch
    assert starting.answer.ongoing_txn_producer_id == -1


def test_keeping_without_an_open_transaction_is_a_plain_start() -> None:
    host = Host()
    host.producer(enable2_pc=True)
    answer = host.init(enable2_pc=True, keep_prepared_txn=True)
    assert (answer.producer_epoch, answer.ongoing_txn_producer_id) == (1, -1)


def test_a_transaction_of_one_phase_is_not_kept() -> None:
    host = Host()
    host.add(host.producer(), P0)
    assert host.init(enable2_pc=True, keep_prepared_txn=True).error_code == ErrorCode.INVALID_TXN_STATE


def test_the_heir_of_a_worn_out_producer_gets_a_new_producer_id() -> None:
    host = Host()
    producer = worn_out_producer(host, enable2_pc=True)
    host.add(producer, P0)
    answer = host.init(enable2_pc=True, keep_prepared_txn=True)
    heir = Producer(answer.producer_id, answer.producer_epoch)
    assert heir == Producer(FIRST_PRODUCER_ID + 1, 0)
    ended = host.end(heir, commits=True)
    (markers,) = host.write_markers()
    assert markers.producer == Producer(producer.producer_id, 2**15 - 1)
    assert Producer(ended.producer_id, ended.producer_epoch) == Producer(heir.producer_id, 1)
