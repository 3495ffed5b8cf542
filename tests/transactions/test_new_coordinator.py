"""What a coordinator makes of the log that another has left."""

from ottla.errors import ErrorCode
from ottla.transactions.transaction import Producer
from tests.transactions.harness import P0, P1, TIMEOUT_MS, Host


def test_a_new_coordinator_writes_the_markers_of_what_was_decided() -> None:
    host = Host()
    producer = host.producer()
    host.add(producer, P0, P1)
    host.end(producer, commits=True)
    host.fail_over()
    (markers,) = host.write_markers()
    assert (markers.commits, set(markers.partitions)) == (True, {P0, P1})
    assert host.state == "CompleteCommit"
    assert not host.to_write


def test_a_new_coordinator_times_out_what_is_open() -> None:
    host = Host()
    host.add(host.producer(), P0)
    host.fail_over()
    host.after(TIMEOUT_MS)
    assert host.state == "PrepareAbort"


def test_those_who_wait_are_sent_to_the_new_coordinator() -> None:
    host = Host()
    producer = host.producer()
    host.add(producer, P0)
    host.end(producer, commits=True)
    waiting = host.ask_add(Producer(producer.producer_id, 1), P1)
    host.fail_over()
    assert waiting.answer is ErrorCode.CONCURRENT_TRANSACTIONS
