from random import Random

import pytest

from ottla.protocol.records import Record, build_batch
from ottla.storage import journal_reader, recovery
from ottla.storage.journal_format import Kind
from ottla.storage.journal_reader import LoggedEntry
from ottla.storage.log_manager import LogManager
from ottla.storage.recovery import History, RecoveryReport
from ottla.testing.disk import CrashingDisk
from ottla.testing.disk_model import EVERYTHING_WRITTEN, NOTHING_UNSYNCED, Keep, Survival

from .crash_model import ManualClock
from .helpers_journal import IDS, A, B, append, checkpoint, commit, config, find, log_of, offsets, start

NO_CUT = 2**63


def history(*entries: tuple[Kind, int]) -> History:
    """Each append has five records."""
    folded = History()
    for number, (kind, offset) in enumerate(entries):
        folded.note(
            LoggedEntry(
                kind=kind,
                topic_id=IDS[A],
                partition=0,
                offset=offset,
                end_offset=offset + 5,
                intact=True,
                file_number=0,
                position=number,
                data_bytes=0,
            )
        )
    return folded


def appends(folded: History) -> list[tuple[int, int]]:
    return [(entry.offset, upto) for entry, upto in folded.appends]


# What the entries of a log come to


def test_appends_follow_each_other() -> None:
    folded = history((Kind.APPEND, 10), (Kind.APPEND, 15), (Kind.APPEND, 20))

    assert [offset for offset, _ in appends(folded)] == [10, 15, 20]
    assert (folded.end, folded.low) == (10, 10)


def test_a_truncation_takes_what_is_after_it_and_cuts_what_is_around_it() -> None:
    folded = history((Kind.APPEND, 10), (Kind.APPEND, 15), (Kind.APPEND, 20), (Kind.TRUNCATE, 17))

    assert appends(folded) == [(10, NO_CUT), (15, 17)]


def test_an_append_replaces_what_was_there_from_its_offset_on() -> None:
    folded = history((Kind.APPEND, 10), (Kind.APPEND, 15), (Kind.APPEND, 12))

    assert appends(folded) == [(10, 12), (12, NO_CUT)]


def test_a_truncation_below_everything_moves_the_end() -> None:
    folded = history((Kind.APPEND, 10), (Kind.TRUNCATE, 4), (Kind.APPEND, 4))

    assert appends(folded) == [(4, NO_CUT)]
    assert (folded.end, folded.low) == (4, 4)


def test_synced_segments_make_earlier_batches_needless_and_keep_the_lowest_change() -> None:
    folded = history((Kind.APPEND, 10), (Kind.SYNCED, 30), (Kind.APPEND, 30))

    assert appends(folded) == [(30, NO_CUT)]
    assert (folded.end, folded.low) == (30, 10)


def test_the_start_only_moves_forward_and_outlives_a_sync() -> None:
    folded = history((Kind.START_OFFSET, 8), (Kind.START_OFFSET, 5), (Kind.SYNCED, 30))

    assert folded.start_offset == 8


def test_a_start_alone_says_nothing_of_records() -> None:
    assert history((Kind.START_OFFSET, 8)).says_nothing_of_records
    assert not history((Kind.START_OFFSET, 8), (Kind.APPEND, 9)).says_nothing_of_records


def test_a_restarted_log_has_no_past() -> None:
    folded = history((Kind.APPEND, 10), (Kind.START_OFFSET, 11), (Kind.RESTART, 5), (Kind.APPEND, 5))

    assert (folded.start_offset, folded.end, folded.replaced) == (5, 5, True)
    assert appends(folded) == [(5, NO_CUT)]


def test_a_removed_log_starts_from_nothing() -> None:
    folded = history((Kind.APPEND, 10), (Kind.START_OFFSET, 11), (Kind.REMOVED, 0))

    assert (folded.start_offset, folded.end, folded.replaced) == (0, 0, True)


def test_where_records_are_not_journaled_the_segments_say_where_the_log_ends() -> None:
    folded = history((Kind.UNJOURNALED, 10))

    assert folded.end is None
    assert not folded.says_nothing_of_records


# What comes of it


def test_what_the_segments_have_is_not_written_again() -> None:
    disk = CrashingDisk()
    commit(start(disk), count=5)

    manager = start(disk.crash(EVERYTHING_WRITTEN))

    assert offsets(log_of(manager)) == [0, 1, 2, 3, 4]
    assert manager.report.batches_replayed == 0
    assert manager.report.logs_checked == 1


@pytest.mark.parametrize("ahead_bytes", [1, 500, recovery.AHEAD_BYTES])
@pytest.mark.parametrize("kept_bytes_max", [0, journal_reader.KEPT_BYTES_MAX])
def test_what_the_segments_have_is_found_however_it_is_read(
    ahead_bytes: int, kept_bytes_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "AHEAD_BYTES", ahead_bytes)
    monkeypatch.setattr(journal_reader, "KEPT_BYTES_MAX", kept_bytes_max)
    disk = CrashingDisk()
    manager = start(disk)
    for size in (20, 2_000, 20, 20, 300):
        commit(manager, size=size)
    append(manager, count=3)
    log_of(manager).roll(1_700_000_000_000)
    commit(manager, count=2)  # one entry of the journal, two segments
    commit(manager, size=300)
    before = [log_of(manager).read(offset, 1 << 20, upto_offset=11, min_one_batch=True) for offset in (0, 8)]

    manager = start(disk.crash(EVERYTHING_WRITTEN))

    log = log_of(manager)
    assert ([segment.base_offset for segment in log.segments], log.end_offset) == ([0, 8], 11)
    assert [log.read(offset, 1 << 20, upto_offset=11, min_one_batch=True) for offset in (0, 8)] == before
    assert manager.report.batches_replayed == 0


def test_where_the_segments_hold_something_else_the_journal_is_right() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    commit(manager, count=3)
    commit(manager, size=30)
    commit(manager, size=20)
    log = log_of(manager)
    expected = log.read(0, 1 << 20, upto_offset=5, min_one_batch=True)
    at = len(log.read(0, 1 << 20, upto_offset=3, min_one_batch=True))
    other = build_batch([Record(timestamp_ms=1_700_000_000_000, key=None, value=b"w" * 30)], base_offset=3)
    disk.open("a-0/00000000000000000000.log").pwritev([other], at)

    manager = start(disk.crash(EVERYTHING_WRITTEN))

    assert log_of(manager).read(0, 1 << 20, upto_offset=5, min_one_batch=True) == expected
    assert manager.report.batches_replayed == 2


def test_what_the_segments_have_lost_is_written_back() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    commit(manager, A, count=2)
    checkpoint(manager)
    commit(manager, A, count=3)
    commit(manager, B)

    manager = start(disk.crash(NOTHING_UNSYNCED))

    assert (offsets(log_of(manager, A)), offsets(log_of(manager, B))) == ([0, 1, 2, 3, 4], [0])
    assert manager.report.batches_replayed == 4
    assert any("4 batches" in sentence for sentence in manager.report.sentences())


def test_what_was_never_acknowledged_is_cut_off() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    commit(manager)
    append(manager)
    unfinished = manager.group_commit.begin()
    assert unfinished is not None
    for write in unfinished.shares:
        write.run()

    manager = start(disk.crash(EVERYTHING_WRITTEN))

    assert offsets(log_of(manager)) == [0]
    assert any("not been acknowledged" in sentence for sentence in manager.report.sentences())


def test_entries_of_logs_that_are_gone_are_passed_over() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    commit(manager, A)
    commit(manager, B)

    after = LogManager(disk.crash(NOTHING_UNSYNCED), config(), clock=ManualClock(), random=Random(1))
    after.recover_metadata()
    report = after.recover(lambda topic_id, index: find(topic_id, index) if topic_id == IDS[A] else None)

    assert (report.logs_gone, report.logs_checked) == (1, 1)


def test_a_clean_start_has_nothing_to_say() -> None:
    assert RecoveryReport().sentences() == []


def test_a_snapshot_of_a_history_that_was_cut_off_is_not_believed() -> None:
    """Its removal may be lost in the crash, and by then the log may reach its offset again."""
    disk = CrashingDisk()
    manager = start(disk)
    log = log_of(manager)
    for sequence in range(4):
        log.append_as_leader(idempotent_batch(5, sequence), leader_epoch=0, now_ms=1_700_000_000_000)
    manager.group_commit.add(log)
    manager.close()
    manager = start(disk)
    manager.truncate(log_of(manager), 1)
    manager.group_commit.commit()
    for sequence in range(3):
        log_of(manager).append_as_leader(idempotent_batch(6, sequence), leader_epoch=0, now_ms=1_700_000_000_000)
    manager.group_commit.add(log_of(manager))
    manager.group_commit.commit()

    disk = disk.crash(Survival(data=Keep.EVERYTHING, names=Keep.NOTHING))
    start(disk).close()
    recovered = log_of(start(disk))

    assert recovered.end_offset == 4
    assert recovered.append_as_leader(idempotent_batch(6, 2), leader_epoch=0, now_ms=1_700_000_000_000) == 3
    assert recovered.append_as_leader(idempotent_batch(5, 1), leader_epoch=0, now_ms=1_700_000_000_000) == 4


def idempotent_batch(producer_id: int, sequence: int) -> bytes:
    record = Record(timestamp_ms=1_700_000_000_000, key=None, value=b"v")
    return build_batch([record], producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
