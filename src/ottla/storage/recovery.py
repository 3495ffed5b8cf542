"""Making the logs what they were before a crash: the journal is replayed over what the segments hold.

For each log the journal's entries are folded into a `History`: which batches it must have from which offset on, and
where it ends. Then the log is opened and brought in line with it. Batches that the segments hold already stay as they
are, written once more; where the two differ, the journal is right. What the segments hold beyond is cut off: it belongs
to a commit that was not acknowledged. So the result depends on the journal alone, and recovering again gives the same.

If a part of the journal that had been synced can't be read any more, that is different: what is missing there may be
in the segments, so everything in them that is intact is kept, and the report says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla.protocol.records import LENGTH_AT, LENGTH_OVERHEAD_BYTES, iter_batches
from ottla.storage.journal_format import Kind

if TYPE_CHECKING:
    from ottla.storage.journal_reader import JournalReader, LoggedEntry
    from ottla.storage.log import Log
    from ottla.storage.segment import Segment
    from ottla.types import TopicId

_WRITE_BYTES = 4 << 20
AHEAD_BYTES = 64 << 10
"""What is read of a log at a time, to be compared with one entry of the journal after the other."""
_NO_CUT = 2**63


@dataclass(slots=True, kw_only=True)
class RecoveryReport:
    """What a start after a crash found and did."""

    journal_blocks: int = 0
    torn_blocks: int = 0
    logs_checked: int = 0
    logs_gone: int = 0
    """Logs with entries in the journal that have been deleted since."""
    batches_replayed: int = 0
    bytes_replayed: int = 0
    bytes_cut: int = 0
    problems: list[str] = field(default_factory=list)
    """What should not have been: damage, and what it cost. One sentence each."""

    def sentences(self) -> list[str]:
        """For people. Nothing if there was nothing to do."""
        if not self.journal_blocks:
            return self.problems
        lines = [
            f"The last stop was not a clean one: {self.journal_blocks} commits of the journal were checked against"
            f" {self.logs_checked} logs."
        ]
        if self.batches_replayed:
            lines.append(
                f"{self.batches_replayed} batches ({self.bytes_replayed} bytes) were written back from the journal."
            )
        if self.bytes_cut:
            lines.append(f"{self.bytes_cut} bytes at the ends of logs were cut off: they had not been acknowledged.")
        if self.torn_blocks:
            lines.append(f"{self.torn_blocks} commits were interrupted and had not been acknowledged.")
        if self.logs_gone:
            lines.append(f"Entries of {self.logs_gone} deleted logs were passed over.")
        return lines + self.problems


class History:
    """What the journal says of one log."""

    __slots__ = ("appends", "end", "is_removed", "low", "replaced", "start_offset", "unjournaled")

    def __init__(self) -> None:
        self.appends: list[tuple[LoggedEntry, int]] = []
        """Entries with batches, and the offset from which on their batches have been truncated away."""
        self.end: int | None = None
        """Where the log ended before `appends`; None if nothing says."""
        self.low = _NO_CUT
        """The lowest offset at which the log was changed."""
        self.start_offset = 0
        self.replaced = False
        """Whether the log was emptied or deleted: what the segments hold counts only if it starts at `start_offset`."""
        self.is_removed = False
        """Whether the last thing that happened to the log was that it was deleted."""
        self.unjournaled = False
        """Whether the segments know more than the journal."""

    @property
    def says_nothing_of_records(self) -> bool:
        return self.end is None and not self.unjournaled

    def note(self, entry: LoggedEntry) -> None:
        """The next entry of this log, in the order of commits."""
        self.is_removed = entry.kind is Kind.REMOVED
        match entry.kind:
            case Kind.APPEND:
                self._cut(entry.offset)
                self.appends.append((entry, _NO_CUT))
            case Kind.TRUNCATE:
                self._cut(entry.offset)
            case Kind.SYNCED:
                self.appends.clear()
                self.end = entry.offset
                self.low = min(self.low, entry.offset)
            case Kind.UNJOURNALED:
                self._cut(entry.offset)
                self.end = None
                self.unjournaled = True
            case Kind.START_OFFSET:
                self.start_offset = max(self.start_offset, entry.offset)
            case Kind.RESTART | Kind.REMOVED:
                self.appends.clear()
                self.end = self.start_offset = entry.offset
                self.low = 0
                self.replaced = True

    def _cut(self, offset: int) -> None:
        while self.appends and self.appends[-1][0].offset >= offset:
            self.appends.pop()
        if self.appends and self.appends[-1][0].end_offset > offset:
            entry, upto = self.appends[-1]
            self.appends[-1] = entry, min(upto, offset)
        self.end = offset if self.end is None else min(self.end, offset)
        self.low = min(self.low, offset)


def read_histories(reader: JournalReader) -> dict[tuple[TopicId, int], History]:
    """By topic id and partition: everything that the journal says."""
    histories: dict[tuple[TopicId, int], History] = {}
    for entry in reader.entries():
        key = entry.topic_id, entry.partition
        history = histories.get(key)
        if history is None:
            history = histories[key] = History()
        history.note(entry)
    return histories


class LogRecovery:
    """Brings one log, opened as after a crash, in line with its history."""

    def __init__(self, log: Log, history: History, reader: JournalReader, report: RecoveryReport) -> None:
        self._log = log
        self._history = history
        self._reader = reader
        self._report = report
        self._held = _Held(log)
        self._end = history.end
        """Where the log must end; None where damage keeps us from knowing."""

    def run(self, start_offset: int) -> None:
        """`start_offset` is where the log begins, once it has its records again. What it holds has yet to be synced."""
        log, history = self._log, self._history
        self._report.logs_checked += 1
        self._report.bytes_cut += log.report.bytes_cut
        if history.replaced and log.segments[0].base_offset != history.start_offset:
            log.truncate_fully_and_start_at(history.start_offset)
        for entry, upto in history.appends:
            self._replay(entry, upto)
        log.write_pending()
        self._cut_surplus()
        if history.appends:
            write_again(log, history.appends[0][0].offset)
        if start_offset > log.end_offset:
            log.truncate_fully_and_start_at(start_offset)
        else:
            log.delete_records_before(start_offset)

    def _replay(self, entry: LoggedEntry, upto: int) -> None:
        log = self._log
        if not entry.intact:
            self._end = None
            return
        data, end = self._reader.data(entry), entry.end_offset
        if upto < end:
            data, end = _below(data, upto)
            if not data:
                return
        if not log.pending and self._held.has(entry.offset, data, end):
            self._end = end
            return
        if log.end_offset > entry.offset:
            log.write_pending()
            log.truncate_to(entry.offset)
        if log.end_offset < entry.offset and (self._end is None or self._reader.hides_entries):
            self._report.problems.append(
                f"{log.partition}: offsets {log.end_offset} to {entry.offset - 1} are lost: they were in a part of the"
                " journal that is damaged."
            )
        log.append_as_follower(data)
        self._end = log.end_offset
        self._report.batches_replayed += _count(data)
        self._report.bytes_replayed += len(data)
        if log.pending_bytes > _WRITE_BYTES:
            log.write_pending()

    def _cut_surplus(self) -> None:
        log = self._log
        if self._end is None or self._reader.hides_entries or log.end_offset <= self._end:
            return
        before = log.size_bytes
        log.truncate_to(self._end)
        self._report.bytes_cut += before - log.size_bytes


def write_again(log: Log, from_offset: int) -> None:
    """Write what the segments hold from an offset on once more, byte for byte, before it is synced.

    They may show what is not on the disk: after a sync that failed Linux takes the pages for clean, and no later sync
    writes them. If the process was started again without the machine, only bytes that are written anew are sure to be
    covered by the sync that the journal then relies on.
    """
    following = [*(segment.base_offset for segment in log.segments[1:]), _NO_CUT]
    for segment, next_offset in zip(log.segments, following, strict=True):
        if next_offset > from_offset and segment.size_bytes:
            start = segment.locate(from_offset, segment.written) if from_offset > segment.base_offset else 0
            if start is not None:
                _rewrite(segment, start)


def _rewrite(segment: Segment, position: int) -> None:
    file = segment.file()
    while position < segment.written:
        piece = file.pread(min(_WRITE_BYTES, segment.written - position), position)
        position += file.pwritev([piece], position)
    segment.unsynced = True


def _below(data: bytes, upto: int) -> tuple[bytes, int]:
    """The batches that end below `upto`, and the offset behind them."""
    size, end_offset = 0, upto
    for batch in iter_batches(data):
        if batch.last_offset >= upto:
            break
        size += batch.size_bytes
        end_offset = batch.last_offset + 1
    return data[:size], end_offset


def _count(data: bytes) -> int:
    """Of batches, which are whole."""
    count = at = 0
    while at < len(data):
        at += int.from_bytes(data[at + LENGTH_AT : at + LENGTH_AT + 4]) + LENGTH_OVERHEAD_BYTES
        count += 1
    return count


class _Held:
    """What the segments of a log hold, for one who asks for one batch after the other.

    It is read ahead. What is read stays true of a log that only gets longer; where it is cut, nobody asks again for
    what was behind.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._ahead = b""
        self._at = 0
        self._offset = -1
        """Of what stands at `_at`."""

    def has(self, offset: int, data: bytes, end_offset: int) -> bool:
        """Whether they hold exactly these batches, from `offset` to before `end_offset`."""
        log, size = self._log, len(data)
        if not log.start_offset <= offset < log.written_offset:
            return False
        if offset != self._offset or len(self._ahead) - self._at < size:
            most = max(size, AHEAD_BYTES)
            self._ahead = log.read(offset, most, upto_offset=log.written_offset, min_one_batch=False)
            self._at = 0
        end = self._at + size
        if end > len(self._ahead):
            self._offset = -1
            return _holds(log, offset, data)
        if self._ahead[self._at : end] != data:
            self._offset = -1
            return False
        self._at, self._offset = end, end_offset
        return True


def _holds(log: Log, offset: int, data: bytes) -> bool:
    """Whether the segments hold exactly these batches from `offset` on, one part in one segment and one in the next."""
    at = 0
    for found in _pieces(log, offset, len(data)):
        if data[at : at + len(found)] != found:
            return False
        at += len(found)
    return at == len(data)


def _pieces(log: Log, offset: int, size: int) -> Iterator[bytes]:
    """What the log holds from `offset` on, one segment's part after the other, at most `size` bytes in all."""
    while size and log.start_offset <= offset < log.written_offset:
        found = log.read(offset, size, upto_offset=log.written_offset, min_one_batch=False)
        if not found:
            return
        yield found
        size -= len(found)
        if size:
            offset = max((batch.last_offset + 1 for batch in iter_batches(found)), default=log.written_offset)
