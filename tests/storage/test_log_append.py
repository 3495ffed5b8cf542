import errno

import pytest

from ottla.errors import BrokerError, CorruptBatchError, ErrorCode
from ottla.protocol.records import HEAD, BatchHeader
from ottla.storage.append import Origin
from ottla.storage.log import Log
from ottla.storage.refusals import REMEMBERED_MS
from ottla.testing.disk import CrashingDisk, Fault, Operation
from tests.storage.batches import DIRECTORY, NOW_MS, append, batch, commit, contents, fill, marker, open_log, read_file


@pytest.fixture
def disk() -> CrashingDisk:
    return CrashingDisk()


@pytest.fixture
def log(disk: CrashingDisk) -> Log:
    return open_log(disk)


def lead(log: Log, data: bytes, *, leader_epoch: int = 0, origin: Origin = Origin.CLIENT) -> int:
    return log.append_as_leader(data, leader_epoch=leader_epoch, now_ms=NOW_MS, origin=origin)


# As leader


def test_offsets_follow_one_another(log: Log) -> None:
    assert [lead(log, batch(b"a", b"b", b"c")), lead(log, batch(b"d")), lead(log, batch(b"e"))] == [0, 3, 4]
    assert log.end_offset == 5


def test_the_head_gets_offset_and_leader_epoch_and_the_body_stays(log: Log) -> None:
    lead(log, batch(b"a"))
    data = batch(b"b", b"c")

    lead(log, data, leader_epoch=9)

    head, body = log.pending[2:]
    assert HEAD.unpack(head) == (1, len(data) - 12, 9, 2, BatchHeader.parse(data).crc)
    assert body == data[21:]
    assert log.pending_bytes == len(data) + len(batch(b"a"))


def test_an_append_does_not_touch_the_disk(disk: CrashingDisk, log: Log) -> None:
    for _ in range(100):
        lead(log, batch(bytes(1_000)))

    assert disk.counters.writes == 0
    assert disk.list("") == []


def test_the_directory_comes_with_the_first_write_and_names_the_topic(disk: CrashingDisk, log: Log) -> None:
    append(log, batch(b"a"))

    assert disk.list(DIRECTORY) == ["00000000000000000000.log", "partition.metadata"]
    assert read_file(disk, "partition.metadata") == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"


def test_what_is_pending_can_not_be_read_until_it_is_written(log: Log) -> None:
    lead(log, batch(b"a"))
    assert log.read(0, 1000, upto_offset=1, min_one_batch=True) == b""

    log.write_pending()

    assert contents(log) == [(0, b"a")]


def test_the_leaders_epochs_are_kept_with_where_they_began(log: Log) -> None:
    for leader_epoch in (1, 1, 4):
        lead(log, batch(b"a"), leader_epoch=leader_epoch)

    assert log.leader_epochs.entries() == [(1, 0), (4, 2)]


# Idempotence, end to end


def test_a_repeated_batch_gets_the_offset_of_the_first_and_is_not_appended(log: Log) -> None:
    data = batch(b"a", b"b", producer_id=7, epoch=0, sequence=0)
    lead(log, batch(b"before"))

    assert [lead(log, data), lead(log, data)] == [1, 1]
    assert log.end_offset == 3
    assert len(log.pending) == 4


@pytest.mark.parametrize("clean", [True, False])
def test_a_batch_is_recognised_after_a_restart(disk: CrashingDisk, log: Log, clean: bool) -> None:
    data = batch(b"a", b"b", producer_id=7, epoch=0, sequence=0)
    append(log, data)
    if clean:
        log.close()

    log = open_log(disk, clean=clean)

    assert lead(log, data) == 0
    assert lead(log, batch(b"c", producer_id=7, epoch=0, sequence=2)) == 2
    with pytest.raises(BrokerError) as refused:
        lead(log, batch(b"c", producer_id=7, epoch=0, sequence=9))
    assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def behind_a_gap(log: Log, sequence: int, *, epoch: int = 0, at_ms: int = NOW_MS) -> ErrorCode:
    """What a producer is told of a batch of which those before are missing."""
    data = batch(b"late", producer_id=7, epoch=epoch, sequence=sequence)
    with pytest.raises(BrokerError) as refused:
        log.append_as_leader(data, leader_epoch=log.leader_epochs.latest, now_ms=at_ms)
    return refused.value.code


def test_a_new_leader_has_a_producer_wait_for_what_the_old_one_has_not_answered(log: Log) -> None:
    lead(log, batch(b"a", b"b", producer_id=7, epoch=0, sequence=0))
    assert behind_a_gap(log, 4) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "this leader has answered all before"

    log.begin_epoch(1, NOW_MS)

    assert behind_a_gap(log, 4) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert behind_a_gap(log, 1, epoch=1) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert lead(log, batch(b"c", producer_id=7, epoch=0, sequence=2), leader_epoch=1) == 2
    assert behind_a_gap(log, 4) is ErrorCode.NOT_LEADER_OR_FOLLOWER, "one of two has come"
    assert lead(log, batch(b"d", producer_id=7, epoch=0, sequence=3), leader_epoch=1) == 3
    assert lead(log, batch(b"e", producer_id=7, epoch=0, sequence=4), leader_epoch=1) == 4
    assert log.end_offset == 5


def test_a_gap_that_stays_is_the_clients(log: Log) -> None:
    lead(log, batch(b"a", producer_id=7, epoch=0, sequence=0))
    log.begin_epoch(1, NOW_MS)
    last_ms = NOW_MS + REMEMBERED_MS
    assert behind_a_gap(log, 2, at_ms=last_ms) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert behind_a_gap(log, 2, at_ms=last_ms + 1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_what_is_older_than_anything_known_is_out_of_order_at_once(log: Log) -> None:
    for sequence in range(7):
        lead(log, batch(b"a", producer_id=7, epoch=1, sequence=sequence))
    log.begin_epoch(1, NOW_MS)
    assert behind_a_gap(log, 0, epoch=1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert behind_a_gap(log, 9, epoch=0) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_batch_is_recognised_after_its_segment_was_closed(disk: CrashingDisk, log: Log) -> None:
    data = batch(b"a", producer_id=7, epoch=0, sequence=0)
    append(log, data)
    log.roll(NOW_MS)
    append(log, batch(b"other"))

    log = open_log(disk, clean=False)

    assert lead(log, data) == 0


def test_producers_expire(log: Log) -> None:
    lead(log, batch(b"a", producer_id=7, epoch=3, sequence=0))

    log.expire_producers(NOW_MS + 1_000, 1_000)

    assert log.producers.active() == []


def test_active_producers_are_told(log: Log) -> None:
    lead(log, batch(b"a", b"b", producer_id=7, epoch=3, sequence=5))

    (producer,) = log.producers.active()

    assert (producer.producer_id, producer.epoch, producer.last_sequence) == (7, 3, 6)
    assert (producer.last_timestamp_ms, producer.coordinator_epoch, producer.txn_first_offset) == (NOW_MS, -1, -1)


# Transactions


def transactional(sequence: int, *, producer_id: int = 7) -> bytes:
    return batch(b"t", producer_id=producer_id, epoch=0, sequence=sequence, transactional=True)


def end(log: Log, *, commits: bool, producer_id: int = 7) -> int:
    return append(log, marker(commits=commits, producer_id=producer_id), origin=Origin.COORDINATOR)


def test_readers_of_committed_records_stop_at_an_open_transaction(log: Log) -> None:
    append(log, batch(b"a"))
    append(log, transactional(0))
    append(log, batch(b"b"))
    assert log.last_stable_offset == 1

    end(log, commits=True)

    assert log.last_stable_offset == log.end_offset == 4


def test_a_marker_above_the_high_watermark_decides_nothing_yet(log: Log) -> None:
    append(log, transactional(0))
    end(log, commits=True)

    assert log.stable_offset(1) == 0
    assert log.stable_offset(2) == 2


def test_an_aborted_transaction_is_told_to_who_reads_its_records(log: Log) -> None:
    append(log, transactional(0), transactional(0, producer_id=8), batch(b"other"))
    end(log, commits=False)
    end(log, commits=True, producer_id=8)

    (aborted,) = log.aborted_transactions(0, 5)

    assert (aborted.producer_id, aborted.first_offset, aborted.last_offset) == (7, 0, 3)
    assert aborted.last_stable_offset == 1
    assert log.aborted_transactions(4, 5) == []


def test_an_abort_in_a_later_segment_is_found(log: Log) -> None:
    append(log, transactional(0))
    log.roll(NOW_MS)
    append(log, batch(b"other"))
    end(log, commits=False)

    assert [aborted.first_offset for aborted in log.aborted_transactions(0, 1)] == [0]


@pytest.mark.parametrize("clean", [True, False])
def test_transactions_are_known_after_a_restart(disk: CrashingDisk, log: Log, clean: bool) -> None:
    append(log, transactional(0))
    end(log, commits=False)
    append(log, transactional(1))
    if clean:
        log.close()

    log = open_log(disk, clean=clean)
    log.sync()

    assert [aborted.last_offset for aborted in log.aborted_transactions(0, 3)] == [1]
    assert log.last_stable_offset == 2


def test_a_full_disk_does_not_keep_a_log_from_telling_what_was_aborted(disk: CrashingDisk, log: Log) -> None:
    for sequence in range(2):
        append(log, transactional(sequence))
        end(log, commits=False)
        log.roll(NOW_MS)
    append(log, transactional(2))
    durable = log.end_offset
    disk.faults.append(Fault(operation=Operation.WRITE, errno=errno.ENOSPC))

    log.reload(durable)

    assert [aborted.last_offset for aborted in log.aborted_transactions(0, 4)] == [1, 3]
    disk.faults.clear()
    log.sync()
    assert [aborted.last_offset for aborted in open_log(disk).aborted_transactions(0, 4)] == [1, 3]


def test_a_log_that_can_not_be_read_again_is_read_no_more(disk: CrashingDisk, log: Log) -> None:
    append(log, transactional(0))
    end(log, commits=False)
    log.roll(NOW_MS)
    append(log, batch(b"a"))
    disk.faults.append(Fault(operation=Operation.WRITE, errno=errno.EIO))

    with pytest.raises(OSError, match="Input/output error"):
        log.reload(3)

    assert log.read(0, 1_000, upto_offset=3, min_one_batch=True) == b""


def test_a_client_can_not_end_a_transaction(log: Log) -> None:
    append(log, transactional(0))

    with pytest.raises(BrokerError) as refused:
        lead(log, marker(commits=True, producer_id=7))

    assert refused.value.code is ErrorCode.INVALID_RECORD


# As follower


def test_a_follower_keeps_offsets_and_epochs(log: Log) -> None:
    one = batch(b"a", b"b", base_offset=0, leader_epoch=3)
    two = batch(b"c", base_offset=5, leader_epoch=4)

    log.append_as_follower(one + two)
    commit(log)

    assert log.read(0, 1000, upto_offset=6, min_one_batch=True) == one + two
    assert contents(log) == [(0, b"a"), (1, b"b"), (5, b"c")]
    assert log.leader_epochs.entries() == [(3, 0), (4, 5)]
    assert log.end_offset == 6


@pytest.mark.parametrize("cut", [1, 30, 70])
def test_a_batch_that_a_fetch_cut_off_is_left_out(log: Log, cut: int) -> None:
    log.append_as_follower(batch(b"a") + batch(b"b" * 100, base_offset=1)[:-cut])

    assert log.end_offset == 1


@pytest.mark.parametrize(
    "data",
    [
        batch(b"x", base_offset=0),
        batch(b"x", base_offset=1)[:-1] + b"!",
        b"\0" * 8 + b"\xff" * 4 + bytes(60),
    ],
    ids=["offsets that it has", "a wrong checksum", "a negative length"],
)
def test_a_follower_refuses_damaged_and_repeated_batches(log: Log, data: bytes) -> None:
    log.append_as_follower(batch(b"a"))

    with pytest.raises(CorruptBatchError):
        log.append_as_follower(data)

    assert log.end_offset == 1


def test_a_follower_learns_of_producers_without_judging_them(log: Log) -> None:
    data = batch(b"x", producer_id=7, epoch=0, sequence=40)
    log.append_as_follower(data)

    assert lead(log, data) == 0
    assert lead(log, batch(b"y", producer_id=7, epoch=0, sequence=41)) == 1


# Writing


def test_a_write_that_spans_a_roll_goes_into_both_segments(disk: CrashingDisk) -> None:
    size = len(batch(bytes(100)))
    log = open_log(disk, segment_bytes=2 * size)
    for _ in range(5):
        lead(log, batch(bytes(100)))

    write = log.take_pending()

    assert write is not None
    assert (write.base_offset, write.end_offset, len(write.buffers), write.size_bytes) == (0, 5, 10, 5 * size)
    assert [(run.segment.base_offset, run.position, run.end_position) for run in write.runs] == [
        (0, 0, 2 * size),
        (2, 0, 2 * size),
        (4, 0, size),
    ]
    write.run()
    write.finish()
    assert contents(log) == [(offset, bytes(100)) for offset in range(5)]


def test_appends_go_on_while_a_write_is_under_way(log: Log) -> None:
    lead(log, batch(b"a"))
    write = log.take_pending()
    assert write is not None
    lead(log, batch(b"b"))
    log.roll(NOW_MS)
    lead(log, batch(b"c"))

    write.run()
    write.finish()
    assert (log.written_offset, log.end_offset) == (1, 3)
    assert contents(log) == [(0, b"a")]

    log.write_pending()
    assert contents(log) == [(0, b"a"), (1, b"b"), (2, b"c")]


def test_buffers_that_were_taken_stay_as_they_are(log: Log) -> None:
    lead(log, batch(b"a"))
    write = log.take_pending()
    assert write is not None
    taken = list(write.buffers)

    lead(log, batch(b"b"))

    assert write.buffers == taken
    assert log.take_pending() is not None
    assert log.take_pending() is None


def test_room_is_reserved_if_the_topic_wants_it(disk: CrashingDisk) -> None:
    log = open_log(disk, preallocate=True, segment_bytes=10_000)

    append(log, batch(b"a"))
    assert log.segments[0].preallocate_bytes == 10_000
    assert log.size_bytes == len(batch(b"a"))

    log.append_as_leader(batch(b"b"), leader_epoch=0, now_ms=NOW_MS)
    log.roll(NOW_MS)
    log.write_pending()
    assert log.segments[0].preallocate_bytes == 0
    assert contents(log) == [(0, b"a"), (1, b"b")]


def test_a_disk_that_refuses_the_roll_refuses_the_batch_and_nothing_else(disk: CrashingDisk) -> None:
    log = open_log(disk, segment_bytes=300)
    append(log, batch(bytes(100)))
    disk.faults.append(Fault(operation=Operation.CREATE, path_contains=".index", errno=errno.ENOSPC, times=1))

    with pytest.raises(BrokerError) as refused:
        lead(log, batch(bytes(100)))
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.end_offset == 1

    append(log, batch(bytes(100)))
    assert contents(log) == [(0, bytes(100)), (1, bytes(100))]


def test_a_batch_behind_one_that_found_no_room_to_roll_does_not_overtake_it(disk: CrashingDisk) -> None:
    """The larger one needs a segment that can't be made; the smaller one behind it would still fit."""
    log = open_log(disk, segment_bytes=400)
    lead(log, batch(bytes(100), producer_id=7, epoch=0, sequence=0))
    disk.faults.append(Fault(operation=Operation.CREATE, path_contains=".index", errno=errno.ENOSPC, times=1))
    larger = batch(bytes(200), producer_id=7, epoch=0, sequence=1)
    smaller = batch(bytes(10), producer_id=7, epoch=0, sequence=2)

    for data in (larger, smaller):
        with pytest.raises(BrokerError) as refused:
            lead(log, data)
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR

    assert [lead(log, larger), lead(log, smaller)] == [1, 2]


def test_what_was_refused_and_came_by_another_leader_is_not_waited_for(log: Log) -> None:
    lead(log, batch(b"a", producer_id=7, epoch=0, sequence=0))
    refused = batch(b"b", producer_id=7, epoch=0, sequence=1, base_offset=1)
    log.append_as_follower(refused)
    log.refuse(refused, ErrorCode.NOT_LEADER_OR_FOLLOWER)  # a repetition of it was

    assert lead(log, batch(b"c", producer_id=7, epoch=0, sequence=2)) == 2


def test_a_producer_that_goes_on_although_nothing_is_known_of_it_is_told_of(
    log: Log, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    lead(log, batch(b"a", producer_id=1, epoch=0, sequence=0))
    assert not caplog.records
    for producer_id in (7, 8):
        lead(log, batch(b"a", producer_id=producer_id, epoch=2, sequence=5))
    assert [record.getMessage() for record in caplog.records] == [
        "nothing is known of producer 7, which goes on with sequence number 5 in epoch 2"
    ]


@pytest.mark.parametrize("known", [(), (0, 1)])
def test_a_batch_does_not_overtake_one_that_was_refused(log: Log, known: tuple[int, ...]) -> None:
    """Whether the log knows its producer or not."""
    for sequence in known:
        lead(log, batch(b"before", producer_id=7, epoch=0, sequence=sequence))
    first = len(known)
    log.refuse(batch(b"a", producer_id=7, epoch=0, sequence=first), ErrorCode.NOT_LEADER_OR_FOLLOWER)

    with pytest.raises(BrokerError) as refused:
        lead(log, batch(b"b", producer_id=7, epoch=0, sequence=first + 1))
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER

    assert lead(log, batch(b"a", producer_id=7, epoch=0, sequence=first)) == first
    assert lead(log, batch(b"b", producer_id=7, epoch=0, sequence=first + 1)) == first + 1


def test_writing_leaves_the_syncing_to_others(disk: CrashingDisk, log: Log) -> None:
    fill(log, 50)

    assert disk.counters.writes == 51
    assert disk.counters.syncs == disk.counters.directory_syncs == 0


def test_what_the_broker_itself_writes_may_be_larger_than_a_client_may_send(disk: CrashingDisk) -> None:
    """A group of thousands of members is one record."""
    data = batch(b"x" * 500)
    log = open_log(disk, max_message_bytes=100)

    with pytest.raises(BrokerError):
        lead(log, data)
    assert lead(log, data, origin=Origin.COORDINATOR) == 0
