"""A transaction from its first partition to its markers, and who starts in the middle of it."""

import pytest

from ottla.errors import ErrorCode
from ottla.transactions.transaction import Producer
from ottla.transactions.waiting import WAIT_MS
from tests.transactions.harness import P0, P1, Host


def test_a_transaction_is_prepared_marked_and_complete() -> None:
    host = Host()
    producer = host.producer()
    assert host.add(producer, P0, P1) is ErrorCode.NONE
    assert host.state == "Ongoing"
    assert host.end(producer, commits=True).error_code == ErrorCode.NONE
    assert host.state == "PrepareCommit"
    (markers,) = host.write_markers()
    assert markers.commits
    assert markers.partitions == {P0, P1}
    assert markers.producer == Producer(producer.producer_id, 1)
    assert host.state == "CompleteCommit"


def test_partitions_gather_over_requests_and_a_known_one_costs_no_record() -> None:
    host = Host()
    producer = host.producer()
    host.add(producer, P0)
    host.add(producer, P1)
    written = len(host.log)
    host.add(producer, P0, P1)
    assert len(host.log) == written
    host.end(producer, commits=False)
    (markers,) = host.write_markers()
    assert (markers.commits, set(markers.partitions)) == (False, {P0, P1})


def test_the_next_transaction_begins_without_the_partitions_of_the_last() -> None:
    host = Host()
    producer = host.producer()
    host.add(producer, P0)
    producer = host.commit(producer)
    host.add(producer, P1)
    host.end(producer, commits=True)
    assert host.to_write[0].partitions == {P1}


def test_who_begins_while_markers_are_written_waits_for_them() -> None:
    host = Host()
    producer = host.producer()
    host.add(producer, P0)
    host.end(producer, commits=True)
    waiting = host.ask_add(Producer(producer.producer_id, 1), P1)
    assert waiting.waits
    host.write_markers()
    assert waiting.answer is ErrorCode.NONE
    assert host.state == "Ongoing"


def test_who_has_waited_too_long_is_told_so() -> None:
    host = Host()
    producer = host.producer()
    host.add(producer, P0)
    host.end(producer, commits=True)
    adding = host.ask_add(Producer(producer.producer_id, 1), P1)
    again = host.ask_end(producer, commits=True)
    starting = host.ask_init()
    host.after(WAIT_MS)
    assert adding.answer is ErrorCode.CONCURRENT_TRANSACTIONS
    assert again.answer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert starting.answer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS


def test_markers_that_were_written_for_an_older_transaction_end_nothing() -> None:
    host = Host()
    producer = host.producer()
    host.add(producer, P0)
    host.end(producer, commits=True)
    (old,) = host.to_write
    host.write_markers()
    host.add(Producer(producer.producer_id, 1), P0)
    assert not host.shard.markers_written(old, host.now_ms).records


def test_the_open_transaction_of_the_last_instance_is_aborted_first() -> None:
    host = Host()
    old = host.producer()
    host.add(old, P0)
    starting = host.ask_init()
    assert starting.waits
    (markers,) = host.to_write
    assert (markers.commits, set(markers.partitions)) == (False, {P0})
    assert markers.producer.epoch > old.epoch
    host.write_markers()
    assert starting.answer.error_code == ErrorCode.NONE
    assert starting.answer.producer_epoch > markers.producer.epoch


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("commits", [True, False])
def test_the_one_whose_transaction_was_aborted_hears_that_it_is_fenced(commits: bool, version: int) -> None:
    host = Host()
    old = host.producer()
    host.add(old, P0, version=version)
    host.ask_init()
    assert host.end(old, commits, version).error_code == ErrorCode.PRODUCER_FENCED
    host.write_markers()
    assert host.end(old, commits, version).error_code == ErrorCode.PRODUCER_FENCED
