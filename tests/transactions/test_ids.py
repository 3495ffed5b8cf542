"""Who has a transactional id: new instances fence old ones, and epochs run out."""

import pytest

from ottla.errors import ErrorCode
from ottla.transactions.transaction import Producer
from tests.transactions.harness import FIRST_PRODUCER_ID, P0, Host, worn_out_producer


def test_a_new_id_gets_a_producer_id_and_epoch_0() -> None:
    assert Host().producer() == Producer(FIRST_PRODUCER_ID, 0)


def test_the_next_instance_fences_the_one_before() -> None:
    host = Host()
    old = host.producer()
    new = host.producer()
    assert new == Producer(old.producer_id, 1)
    assert host.add(old, P0) is ErrorCode.PRODUCER_FENCED
    assert host.end(old, commits=True).error_code == ErrorCode.PRODUCER_FENCED
    assert host.add(new, P0) is ErrorCode.NONE


def test_an_id_that_nobody_has_is_not_known() -> None:
    host = Host()
    assert host.add(Producer(1, 0), P0) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert host.end(Producer(1, 0), commits=True).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert host.describe().error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def test_another_producer_id_than_the_ids_own_is_refused() -> None:
    host = Host()
    host.producer()
    assert host.add(Producer(7, 0), P0) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert host.end(Producer(7, 0), commits=False).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING


@pytest.mark.parametrize("timeout_ms", [0, -1, 15 * 60_000 + 1])
def test_a_time_out_must_be_within_bounds(timeout_ms: int) -> None:
    assert Host().init(transaction_timeout_ms=timeout_ms).error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT


def test_an_empty_id_is_no_id() -> None:
    assert Host().init("").error_code == ErrorCode.INVALID_REQUEST


# KIP-360: the same instance goes on with a new epoch


def test_a_producer_that_says_who_it_is_gets_the_next_epoch() -> None:
    host = Host()
    producer = host.producer()
    renewed = host.producer(producer_id=producer.producer_id, producer_epoch=producer.epoch)
    assert renewed == Producer(producer.producer_id, 1)


def test_its_repetition_gets_the_same_epoch_again() -> None:
    host = Host()
    producer = host.producer()
    first = host.producer(producer_id=producer.producer_id, producer_epoch=producer.epoch)
    again = host.producer(producer_id=producer.producer_id, producer_epoch=producer.epoch)
    assert first == again == Producer(producer.producer_id, 1)


def test_a_producer_that_was_replaced_is_fenced() -> None:
    host = Host()
    producer = host.producer()
    host.producer()
    answer = host.init(producer_id=producer.producer_id, producer_epoch=producer.epoch)
    assert answer.error_code == ErrorCode.PRODUCER_FENCED


def test_a_zombie_that_starts_again_does_not_abort_the_transaction_of_its_successor() -> None:
    host = Host()
    zombie = host.producer()
    new = host.producer()
    host.add(new, P0)
    answer = host.init(producer_id=zombie.producer_id, producer_epoch=zombie.epoch)
    assert answer.error_code == ErrorCode.PRODUCER_FENCED
    assert host.state == "Ongoing"


def test_a_producer_that_starts_again_in_the_middle_of_its_transaction_goes_on_without_it() -> None:
    host = Host()
    producer = host.producer()
    host.add(producer, P0)
    fields = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
    starting = host.ask_init("x", **fields)
    (markers,) = host.write_markers()
    assert (markers.commits, set(markers.partitions)) == (False, {P0})
    assert starting.answer.error_code == ErrorCode.NONE
    assert starting.answer.producer_epoch >= markers.producer.epoch
    assert host.end(producer, commits=True).error_code == ErrorCode.PRODUCER_FENCED
    assert host.add(Producer(producer.producer_id, starting.answer.producer_epoch), P0) is ErrorCode.NONE


def test_unless_another_has_started_meanwhile() -> None:
    host = Host()
    producer = host.producer()
    host.add(producer, P0)
    other = host.ask_init()
    answer = host.init(producer_id=producer.producer_id, producer_epoch=producer.epoch)
    assert answer.error_code == ErrorCode.PRODUCER_FENCED
    host.write_markers()
    assert other.answer.error_code == ErrorCode.NONE


def test_a_producer_id_without_an_epoch_makes_no_sense() -> None:
    assert Host().init(producer_id=5).error_code == ErrorCode.INVALID_REQUEST


def test_a_producer_id_whose_epochs_are_used_up_is_replaced() -> None:
    host = Host()
    producer = worn_out_producer(host)
    renewed = host.producer(producer_id=producer.producer_id, producer_epoch=producer.epoch)
    assert renewed == Producer(FIRST_PRODUCER_ID + 1, 0)
    assert host.producer(producer_id=producer.producer_id, producer_epoch=producer.epoch) == renewed
