from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.errors import InvariantError
from ottla.raft.entry import ORIGIN, Entry, EntryId, EntryKind, Snapshot
from ottla.raft.log import RaftLog
from ottla.raft.voters import VoterSet
from tests.raft.host import MemoryDisk


def entries(*terms: int, first: int = 1, data: bytes = b"") -> list[Entry]:
    return [Entry(index=index, term=term, data=data) for index, term in enumerate(terms, first)]


def voters_entry(index: int, term: int, *node_ids: int) -> Entry:
    return Entry(index=index, term=term, kind=EntryKind.VOTERS, data=VoterSet.of(node_ids).encode())


def disk_with(*terms: int) -> MemoryDisk:
    disk = MemoryDisk(VoterSet.of([1, 2, 3]))
    disk.write(entries(*terms))
    return disk


def write(log: RaftLog, disk: MemoryDisk) -> None:
    snapshot, offered = log.offer()
    if snapshot is not None:
        disk.install(snapshot, ())
    if offered:
        disk.write(offered)
    log.mark_written()


def test_a_log_that_was_read_from_disk_knows_its_terms_and_voters() -> None:
    disk = disk_with(1, 1, 2)
    disk.write([voters_entry(4, 2, 1, 2)])
    log = RaftLog(disk)
    assert log.last == EntryId(4, 2)
    assert [log.term(index) for index in range(5)] == [0, 1, 1, 2, 2]
    assert log.voters.ids == (1, 2)
    assert place_of(log) == (0, 0, 4)


def test_voters_before_a_snapshots_end_are_those_of_the_snapshot() -> None:
    disk = disk_with(1)
    disk.write([voters_entry(2, 1, 7), *entries(1, 1, first=3)])
    disk.compact(Snapshot(last=EntryId(3, 1), voters=VoterSet.of([7])), (), keep_entries=3)
    log = RaftLog(disk)
    assert log.base == ORIGIN
    assert log.voters.ids == (7,)
    assert log.commit == 3


@pytest.mark.parametrize("last", [EntryId(4, 1), EntryId(3, 2)])
def test_a_log_that_does_not_continue_its_snapshot_is_not_believed(last: EntryId) -> None:
    disk = disk_with(1, 1, 1)
    disk.snapshot = Snapshot(last=last)
    with pytest.raises(InvariantError):
        RaftLog(disk)


def place_of(log: RaftLog) -> tuple[int, int, int]:
    return log.commit, log.applied, log.stable_index


def test_entries_that_are_here_already_change_nothing() -> None:
    log = RaftLog(disk_with(1, 1, 2, 2))
    log.merge(entries(1, 2, first=2))
    assert log.last == EntryId(4, 2)
    assert log.offer() == (None, ())


def test_entries_that_disagree_replace_all_from_there_on() -> None:
    disk = disk_with(1, 1, 2, 2, 2)
    log = RaftLog(disk)
    log.merge(entries(1, 3, 3, first=2))
    assert [log.term(index) for index in range(1, 5)] == [1, 1, 3, 3]
    assert log.stable_index == 2
    write(log, disk)
    assert [entry.term for entry in disk.entries] == [1, 1, 3, 3]
    assert log.stable_index == log.last_index == 4


def test_a_change_of_voters_is_in_force_at_once_and_taken_back_with_its_entry() -> None:
    log = RaftLog(disk_with(1, 1))
    log.append([voters_entry(3, 1, 1, 2)])
    assert list(log.voters.ids) == [1, 2]
    assert log.has_voters_pending
    assert log.may_be_voter(3)
    log.merge(entries(2, first=3))
    assert list(log.voters.ids) == [1, 2, 3]
    assert not log.has_voters_pending


def test_what_is_committed_is_never_replaced() -> None:
    log = RaftLog(disk_with(1, 1, 1))
    log.commit_to(2)
    with pytest.raises(InvariantError, match="would be replaced"):
        log.merge(entries(2, first=2))


def test_the_commit_index_never_falls_nor_passes_the_end() -> None:
    log = RaftLog(disk_with(1, 1, 1))
    log.commit_to(2)
    log.commit_to(1)
    assert log.commit == 2
    with pytest.raises(InvariantError, match="and not here"):
        log.commit_to(4)


def test_committed_entries_are_handed_out_in_portions_but_at_least_one() -> None:
    disk = MemoryDisk()
    disk.write(entries(1, 1, 1, data=b"x" * 100))
    log = RaftLog(disk)
    log.commit_to(3)
    assert [entry.index for entry in log.unapplied(1)] == [1]
    assert [entry.index for entry in log.unapplied(250)] == [1, 2]
    log.mark_applied(2)
    assert [entry.index for entry in log.unapplied(1_000)] == [3]
    with pytest.raises(InvariantError):
        log.mark_applied(4)


@settings(deadline=None)
@given(st.integers(0, 8), st.integers(0, 8), st.data())
def test_a_read_over_what_is_on_disk_and_what_is_not_is_one_run_that_fits(
    stable: int, unstable: int, data: st.DataObject
) -> None:
    sizes = data.draw(st.lists(st.integers(0, 40), min_size=stable + unstable, max_size=stable + unstable))
    every = [Entry(index=index, term=1, data=b"x" * size) for index, size in enumerate(sizes, 1)]
    disk = MemoryDisk()
    if stable:
        disk.write(every[:stable])
    log = RaftLog(disk)
    if unstable:
        log.append(every[stable:])
    first = data.draw(st.integers(1, len(every) + 1))
    last = data.draw(st.integers(0, len(every)))
    bytes_max = data.draw(st.integers(0, 300))

    found = list(log.read(first, last, bytes_max))

    assert found == every[first - 1 : first - 1 + len(found)]
    assert bool(found) == (first <= last)
    if len(found) > 1:
        assert sum(entry.size_bytes for entry in found) <= bytes_max
    if found and found[-1].index < last:
        more = every[first - 1 : first + len(found)]
        assert sum(entry.size_bytes for entry in more) > bytes_max


def test_whether_a_candidate_is_up_to_date_is_a_matter_of_the_last_term_then_of_the_length() -> None:
    log = RaftLog(disk_with(1, 2))
    assert log.is_up_to_date(EntryId(2, 2))
    assert log.is_up_to_date(EntryId(1, 3))
    assert log.is_up_to_date(EntryId(3, 2))
    assert not log.is_up_to_date(EntryId(9, 1))
    assert not log.is_up_to_date(EntryId(1, 2))


def test_a_log_begins_anew_after_a_snapshot_of_the_leader() -> None:
    disk = disk_with(1, 1, 1)
    log = RaftLog(disk)
    snapshot = Snapshot(last=EntryId(10, 3), voters=VoterSet.of([4]))
    log.restore(snapshot)
    assert log.last == EntryId(10, 3)
    assert place_of(log) == (10, 10, 0)
    assert log.voters.ids == (4,)
    assert log.snapshot_at(10) is None, "the leader's is newer than anything that could be taken"
    write(log, disk)
    assert log.stable_index == 10
    assert log.snapshot_at(10) == snapshot


def test_a_snapshot_never_undoes_what_is_committed() -> None:
    log = RaftLog(disk_with(1, 1, 1))
    log.commit_to(3)
    with pytest.raises(InvariantError, match="would undo"):
        log.restore(Snapshot(last=EntryId(3, 1)))


def test_after_a_compaction_only_the_base_is_remembered_of_what_is_gone() -> None:
    disk = disk_with(1, 1, 2, 2)
    log = RaftLog(disk)
    log.commit_to(4)
    log.mark_applied(3)
    snapshot = log.snapshot_at(3)
    assert snapshot == Snapshot(last=EntryId(3, 2), voters=VoterSet.of([1, 2, 3]))
    disk.compact(snapshot, ())
    log.compacted()
    assert log.base == EntryId(3, 2)
    assert log.matches(EntryId(3, 2))
    assert not log.matches(EntryId(2, 1))
    with pytest.raises(InvariantError):
        log.read(3, 4, 100)


def test_a_compaction_beyond_what_is_applied_or_of_another_log_is_noticed() -> None:
    disk = disk_with(1, 1, 2)
    log = RaftLog(disk)
    log.commit_to(3)
    log.mark_applied(2)
    with pytest.raises(InvariantError):
        log.snapshot_at(3)
    disk.compact(Snapshot(last=EntryId(3, 2)), ())
    with pytest.raises(InvariantError, match="compacted to"):
        log.compacted()
    log.mark_applied(3)
    disk.snapshot = Snapshot(last=EntryId(3, 9))
    with pytest.raises(InvariantError, match="another log"):
        log.compacted()
