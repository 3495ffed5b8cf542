"""One transactional id after the other: what a coordinator answers, and what it leaves in its log."""

import pytest

from ottla.config import TransactionConfig
from ottla.errors import ErrorCode
from ottla.transactions.transaction import NEVER_TIMES_OUT_MS, Producer
from ottla.transactions.waiting import WAIT_MS
from tests.transactions.harness import FIRST_PRODUCER_ID, P0, P1, P2, TIMEOUT_MS, Host

# Who has the id


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
    producer = _worn_out(host)
    renewed = host.producer(producer_id=producer.producer_id, producer_epoch=producer.epoch)
    assert renewed == Producer(FIRST_PRODUCER_ID + 1, 0)
    assert host.producer(producer_id=producer.producer_id, producer_epoch=producer.epoch) == renewed


def _worn_out(host: Host) -> Producer:
    producer = host.producer()
    while producer.epoch < 2**15 - 2:
        producer = host.producer()
    assert producer.producer_id == FIRST_PRODUCER_ID
    return producer


# Transactions


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
    worn_out = _worn_out(host)
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
    worn_out = _worn_out(host)
    host.add(worn_out, P0)
    first = host.end(worn_out, commits=True)
    host.write_markers()
    host.fail_over()
    assert host.end(worn_out, commits=True) == first


# Who starts while a transaction is open


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


# Time


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
    producer = _worn_out(host)
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


# Verification (KIP-890)


def test_a_partition_is_verified_while_its_transaction_is_open() -> None:
    host = Host()
    producer = host.producer()
    host.add(producer, P0, version=0)
    assert host.shard.verify_partitions("x", producer, frozenset({P0, P2})).response == {
        P0: ErrorCode.NONE,
        P2: ErrorCode.TRANSACTION_ABORTABLE,
    }


@pytest.mark.parametrize(
    ("client", "code"),
    [
        (Producer(7, 0), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (Producer(FIRST_PRODUCER_ID, 1), ErrorCode.PRODUCER_FENCED),
    ],
)
def test_others_are_not_verified(client: Producer, code: ErrorCode) -> None:
    host = Host()
    host.add(host.producer(), P0)
    assert host.shard.verify_partitions("x", client, frozenset({P0})).response == {P0: code}


def test_nothing_is_verified_while_markers_are_written_nor_after() -> None:
    host = Host()
    producer = host.producer()
    host.add(producer, P0, version=0)
    host.end(producer, commits=True, version=0)
    verify = host.shard.verify_partitions
    assert verify("x", producer, frozenset({P0})).response == {P0: ErrorCode.CONCURRENT_TRANSACTIONS}
    host.write_markers()
    assert verify("x", producer, frozenset({P0})).response == {P0: ErrorCode.TRANSACTION_ABORTABLE}


# Another coordinator


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


# Two phases (KIP-939)


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
    producer = host.producer(enable2_pc=True)
    while producer.epoch < 2**15 - 2:
        producer = host.producer(enable2_pc=True)
    host.add(producer, P0)
    answer = host.init(enable2_pc=True, keep_prepared_txn=True)
    heir = Producer(answer.producer_id, answer.producer_epoch)
    assert heir == Producer(FIRST_PRODUCER_ID + 1, 0)
    ended = host.end(heir, commits=True)
    (markers,) = host.write_markers()
    assert markers.producer == Producer(producer.producer_id, 2**15 - 1)
    assert Producer(ended.producer_id, ended.producer_epoch) == Producer(heir.producer_id, 1)
