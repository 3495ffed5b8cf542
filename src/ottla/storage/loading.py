"""How a log comes back: what its directory says after a clean stop, and what is left of it after a crash.

After a clean stop, and for a log that was synced as a whole before a crash, the names in the directory say where the
segments begin, and the batches after the last index entry where the log ends. Nothing else is read.

After a crash everything below the recovery point is known to be on the medium and is not looked at. From there on each
batch is checked; the first that is torn or damaged ends the log, since what follows it was never acknowledged on the
strength of these files: what was, is in the journal, whose replay comes next. The indexes are built along the way.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.errors import BrokerError, CorruptLogError
from ottla.protocol.records import BATCH_HEADER, BODY_AT, CONTROL_BIT, crc32c
from ottla.storage import names
from ottla.storage.compaction_swap import finish_swaps
from ottla.storage.leader_epochs import LeaderEpochs
from ottla.storage.replay import note_abort, producers_at, replay_batch
from ottla.storage.segment import Segment
from ottla.storage.snapshots import Snapshots
from ottla.storage.time_index import NO_TIMESTAMP
from ottla.values import value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.config import LogConfig
    from ottla.ports import Disk
    from ottla.storage.producer_state import ProducerState
    from ottla.storage.time_index import TimeEntry
    from ottla.storage.txn_index import AbortedTransaction


NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})


@value
class LoadReport:
    """What was found and done when a log was opened. All zero after a clean stop."""

    batches_checked: int = 0
    bytes_cut: int = 0
    segments_removed: int = 0
    indexes_rebuilt: int = 0
    """Segments whose indexes were missing or could not be trusted."""
    problems: tuple[str, ...] = ()
    """One sentence for each thing that was not as it should be."""


NOTHING_TO_REPORT = LoadReport()


@dataclass(slots=True, kw_only=True)
class Loaded:
    """The parts of a log, as found on disk."""

    segments: list[Segment]
    snapshots: Snapshots
    start_offset: int
    end_offset: int
    recovery_point: int
    has_directory: bool
    epochs: LeaderEpochs | None = None
    producers: ProducerState | None = None
    """None for both: not looked at, load them when they are needed."""
    report: LoadReport = NOTHING_TO_REPORT


def load(
    disk: Disk, directory: str, config: LogConfig, *, clean: bool, recovery_point: int, start_offset: int, now_ms: int
) -> Loaded:
    found = disk.list(directory)
    if finish_swaps(disk, directory, found):
        found = disk.list(directory)
    bases = _tidy(disk, directory, found)
    snapshots = Snapshots(
        disk, directory, [at for name in found if (at := names.offset_in_name(name, names.SNAPSHOT)) is not None]
    )
    if not bases:
        snapshots.remove(list(snapshots.offsets))
        return _empty(disk, directory, snapshots, start_offset, has_directory=bool(found), now_ms=now_ms)
    segments = [Segment.at_rest(disk, directory, base, created_ms=now_ms) for base in bases]
    recovery = _Recovery(disk, directory, config, segments, snapshots)
    end_offset = recovery.end_after_clean_stop(found) if clean else None
    if end_offset is not None:
        recovery_point = end_offset
    else:
        recovery_point = bases[-1] if clean else max(recovery_point, bases[0])
        end_offset = recovery.recover(recovery_point, found)
        recovery_point = min(recovery_point, end_offset)
    if end_offset < start_offset:
        recovery.problems.append(f"{directory}: the log ends at {end_offset}, before its start at {start_offset}")
        for segment in segments:
            segment.discard()
        snapshots.remove(list(snapshots.offsets))
        loaded = _empty(disk, directory, snapshots, start_offset, has_directory=True, now_ms=now_ms)
    else:
        loaded = Loaded(
            segments=segments,
            snapshots=snapshots,
            start_offset=max(start_offset, bases[0]),
            end_offset=end_offset,
            recovery_point=recovery_point,
            has_directory=True,
            epochs=recovery.epochs,
            producers=recovery.producers,
        )
    loaded.report = recovery.report()
    return loaded


def load_epochs(disk: Disk, directory: str, segments: Sequence[Segment], upto_offset: int) -> LeaderEpochs:
    """From their file; one that is missing or can't be read is made anew from the batches below `upto_offset`."""
    path = f"{directory}/{names.LEADER_EPOCHS}"
    if disk.exists(path):
        file = disk.open(path)
        data = file.pread(file.size(), 0)
        file.close()
        try:
            return LeaderEpochs.decode(data)
        except CorruptLogError:
            return _epochs_of(segments, upto_offset)
    return _epochs_of(segments, upto_offset)


def _epochs_of(segments: Sequence[Segment], upto_offset: int) -> LeaderEpochs:
    epochs = LeaderEpochs()
    for segment in segments:
        for batch in segment.scan() if segment.base_offset < upto_offset else ():
            base_offset, _, leader_epoch = BATCH_HEADER.unpack_from(batch)[:3]
            if base_offset >= upto_offset:
                break
            epochs.assign(leader_epoch, base_offset)
    return epochs


def _empty(
    disk: Disk, directory: str, snapshots: Snapshots, start_offset: int, *, has_directory: bool, now_ms: int
) -> Loaded:
    segment = Segment(disk, directory, start_offset, created_ms=now_ms, size_bytes=0)
    return Loaded(
        segments=[segment],
        snapshots=snapshots,
        start_offset=start_offset,
        end_offset=start_offset,
        recovery_point=start_offset,
        has_directory=has_directory,
    )


def _tidy(disk: Disk, directory: str, found: Sequence[str]) -> list[int]:
    """Remove what interrupted operations left behind. Returns the base offsets of the segments."""
    bases = [base for name in found if (base := names.offset_in_name(name, names.LOG)) is not None]
    for name in found:
        orphaned = any(
            (base := names.offset_in_name(name, suffix)) is not None and base not in bases
            for suffix in (names.OFFSET_INDEX, names.TIME_INDEX, names.TXN_INDEX)
        )
        if orphaned or name.endswith(names.LEFTOVERS):
            disk.remove(f"{directory}/{name}")
    return bases


class _Recovery:
    """The state of one look at a log's files."""

    def __init__(
        self, disk: Disk, directory: str, config: LogConfig, segments: list[Segment], snapshots: Snapshots
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._config = config
        self._segments = segments
        self._snapshots = snapshots
        self._check_from = 0
        self._end_offset = segments[0].base_offset
        self.epochs: LeaderEpochs | None = None
        self.producers: ProducerState | None = None
        self.problems: list[str] = []
        self._batches_checked = self._bytes_cut = self._segments_removed = self._indexes_rebuilt = 0

    def report(self) -> LoadReport:
        return LoadReport(
            batches_checked=self._batches_checked,
            bytes_cut=self._bytes_cut,
            segments_removed=self._segments_removed,
            indexes_rebuilt=self._indexes_rebuilt,
            problems=tuple(self.problems),
        )

    # After a clean stop

    def end_after_clean_stop(self, found: Sequence[str]) -> int | None:
        """None if the last segment is not as a clean stop would leave it."""
        self._rebuild_missing_indexes(self._segments, found)
        last = self._segments[-1]
        end_offset = last.base_offset
        if not last.size_bytes:
            self._forget_beyond(last, end_offset, found)
            return end_offset
        last.offsets.truncate_beyond(last.size_bytes)
        entry = last.offsets.last()
        scan = last.scan(entry.position if entry else 0)
        for batch in scan:
            fields = BATCH_HEADER.unpack_from(batch)
            end_offset = fields[0] + fields[6] + 1
        if scan.problem:
            self.problems.append(f"{last.path(names.LOG)}: {scan.problem}, although the stop was clean")
            return None
        self._forget_beyond(last, end_offset, found)
        return end_offset

    def _forget_beyond(self, last: Segment, end_offset: int, found: Sequence[str]) -> None:
        """What a sync wrote down about batches that were appended, and did not get into the file before a crash."""
        last.times.truncate_to(end_offset)
        if names.file_name(last.base_offset, names.TXN_INDEX) in found:
            last.txns.truncate_to(end_offset)
        if self._snapshots.remove_after(end_offset):
            self._disk.sync_directory(self._directory)

    def _rebuild_missing_indexes(self, segments: Sequence[Segment], found: Sequence[str]) -> None:
        present = set(found)
        for segment in segments:
            wanted = {names.file_name(segment.base_offset, kind) for kind in (names.OFFSET_INDEX, names.TIME_INDEX)}
            if not wanted <= present and segment.size_bytes:
                self._rebuild(segment, "an index is missing")

    def _rebuild(self, segment: Segment, why: str) -> None:
        self._indexes_rebuilt += 1
        self.problems.append(f"{segment.path(names.LOG)}: {why}, its indexes are built anew")
        _reset_indexes(segment)
        scan = segment.scan()
        for batch in scan:
            self._index(segment, scan.position, batch)
        segment.seal()

    # After a crash

    def recover(self, recovery_point: int, found: Sequence[str]) -> int:
        """Check everything from the recovery point on, cut at the first damage. Returns the end of the log."""
        self._check_from = recovery_point
        self.epochs = load_epochs(self._disk, self._directory, self._segments, recovery_point)
        self.epochs.truncate_from_end(recovery_point)
        # The segment that ends at the recovery point is looked at too: its indexes may not have been closed.
        first = max(0, sum(segment.base_offset < recovery_point for segment in self._segments) - 1)
        self._rebuild_missing_indexes(self._segments[:first], found)
        self._end_offset = self._segments[first].base_offset
        for number in range(first, len(self._segments)):
            segment = self._segments[number]
            # A hole beyond the recovery point is a segment whose name was lost; the journal has what was in it.
            if segment.base_offset < self._end_offset or self._end_offset < segment.base_offset > recovery_point:
                self._drop_from(number, f"the one before it ends at {self._end_offset}")
                break
            self._end_offset = segment.base_offset
            segment.unsynced = True  # intact is not synced: it may have come from the page cache
            if not self._recover_segment(segment):
                self._drop_from(number + 1, "")
                break
            if segment is not self._segments[-1]:
                _seal_if_there_is_room(segment)
        if self._end_offset < recovery_point:
            self.problems.append(
                f"{self._directory}: offsets {self._end_offset} to {recovery_point - 1} were synced and are gone"
            )
        # One beyond the recovery point may be torn, or tell of a history that was cut off. The scan knows better.
        if self._snapshots.remove_after(min(recovery_point, self._end_offset)):
            self._disk.sync_directory(self._directory)
        return self._end_offset

    def _recover_segment(self, segment: Segment) -> bool:
        """Whether all of it is good; otherwise it has been cut."""
        position = self._trusted_position(segment)
        # Only now: it is looked up by the other indexes.
        segment.txns.keep_backed(lambda aborted: self._is_marker(segment, aborted))
        scan = segment.scan(position)
        problem = ""
        for batch in scan:
            problem = self._take(segment, scan.position, batch)
            if problem:
                break
        problem = problem or scan.problem
        if not problem:
            return True
        cut = segment.size_bytes - scan.position
        self._bytes_cut += cut
        self.problems.append(f"{segment.path(names.LOG)}: {problem}, {cut} bytes are cut off")
        segment.truncate_to(self._end_offset, scan.position)
        return False

    def _trusted_position(self, segment: Segment) -> int:
        """Where to begin: the indexes below the recovery point were synced with it. Everything after is forgotten."""
        offsets, times = segment.offsets, segment.times
        offsets.keep_ordered()
        times.keep_ordered()
        offsets.truncate_to(self._check_from)
        times.truncate_to(self._check_from)
        segment.txns.keep_ordered(segment.base_offset)
        segment.txns.truncate_to(self._check_from)
        segment.largest_ms, segment.largest_offset = times.last
        last = offsets.last()
        if last is None and not len(times):
            return 0
        if (last is None or self._is_batch(segment, last.position, last.offset)) and self._is_noted(
            segment, times.last
        ):
            # The two files may have lost different parts, and the largest timestamp must come out right.
            return min(last.position, offsets.lookup(times.last.offset)) if last else 0
        self._indexes_rebuilt += 1
        self.problems.append(f"{segment.path(names.LOG)}: its indexes are damaged and are built anew")
        _reset_indexes(segment)
        return 0

    def _is_batch(self, segment: Segment, position: int, last_offset: int, timestamp_ms: int | None = None) -> bool:
        """Whether the batch at `position` is the one that an index says it is."""
        header = segment.file().pread(BATCH_HEADER.size, position) if position < segment.size_bytes else b""
        if len(header) < BATCH_HEADER.size:
            return False
        fields = BATCH_HEADER.unpack(header)
        return bool(fields[0] + fields[6] == last_offset and timestamp_ms in (None, fields[8]))

    def _is_noted(self, segment: Segment, entry: TimeEntry) -> bool:
        if entry.timestamp_ms == NO_TIMESTAMP:
            return True
        try:
            position = segment.locate(entry.offset, segment.size_bytes)
        except BrokerError:
            return False
        return position is not None and self._is_batch(segment, position, entry.offset, entry.timestamp_ms)

    def _is_marker(self, segment: Segment, aborted: AbortedTransaction) -> bool:
        """Whether the log has a control batch where an index says that a transaction was aborted."""
        try:
            position = segment.locate(aborted.last_offset, segment.size_bytes)
        except BrokerError:
            return False
        header = b"" if position is None else segment.file().pread(BATCH_HEADER.size, position)
        if len(header) < BATCH_HEADER.size:
            return False
        fields = BATCH_HEADER.unpack(header)
        is_control = bool(fields[5] & CONTROL_BIT)
        return is_control and (fields[0], fields[9]) == (aborted.last_offset, aborted.producer_id)

    def _take(self, segment: Segment, position: int, batch: memoryview) -> str:
        """Make a batch part of the log again. Returns what is wrong with it instead, if something is."""
        fields = BATCH_HEADER.unpack_from(batch)
        base_offset, leader_epoch, crc, last_offset = fields[0], fields[2], fields[4], fields[0] + fields[6]
        if base_offset < self._end_offset or last_offset < base_offset:
            return f"the batch at position {position} has offsets {base_offset} to {last_offset}, out of order"
        if last_offset >= self._check_from:
            if crc32c(bytes(batch[BODY_AT:])) != crc:
                return f"the checksum of the batch at position {position} is wrong"
            self._batches_checked += 1
            if self.epochs is not None and leader_epoch > self.epochs.latest:
                self.epochs.assign(leader_epoch, base_offset)
            if fields[9] >= 0:
                self._replay(segment, batch)
        self._index(segment, position, batch)
        self._end_offset = last_offset + 1
        return ""

    def _replay(self, segment: Segment, batch: memoryview) -> None:
        if self.producers is None:
            self.producers = producers_at(self._segments, self._snapshots, self._check_from)
        ended = replay_batch(batch, self.producers)
        if ended is not None and ended.aborted:
            note_abort(segment, ended)

    def _index(self, segment: Segment, position: int, batch: memoryview) -> None:
        fields = BATCH_HEADER.unpack_from(batch)
        last_offset, timestamp_ms = fields[0] + fields[6], fields[8]
        if timestamp_ms > segment.largest_ms:
            segment.largest_ms, segment.largest_offset = timestamp_ms, last_offset
        last = segment.offsets.last()
        if position > (last.position if last else 0) + self._config.index_interval_bytes:
            segment.offsets.append(last_offset, position)
            segment.times.append(segment.largest_ms, segment.largest_offset)

    def _drop_from(self, number: int, problem: str) -> None:
        dropped = self._segments[number:]
        if problem:
            self.problems.append(f"{dropped[0].path(names.LOG)}: {problem}; it and what follows are removed")
        self._bytes_cut += sum(segment.size_bytes for segment in dropped)
        self._segments_removed += len(dropped)
        for segment in dropped:
            segment.discard()
        del self._segments[number:]


def _seal_if_there_is_room(segment: Segment) -> None:
    """A full disk must not keep a log from being what it was: its indexes are whole in memory, and are written before
    the next sync relies on them.
    """
    try:
        segment.seal()
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        segment.has_index_backlog = True


def _reset_indexes(segment: Segment) -> None:
    segment.offsets.truncate_to(segment.base_offset)
    segment.times.truncate_to(segment.base_offset)
    segment.largest_ms, segment.largest_offset = segment.times.last
