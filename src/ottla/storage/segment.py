"""One piece of a log: a `.log` file with batches one after the other, and the indexes that find them.

Batches get their position when they are appended, and reach the file with the next write. So a segment has three ends:
`position`, where the next batch goes; `taken`, up to which a write has been handed out; `written`, up to which the file
holds it and readers may read.

A segment that nobody uses is small: sizes, timestamps and indexes are loaded when they are first asked for, which is
what makes opening a log cheap.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, cast

from ottla.errors import BrokerError, ErrorCode
from ottla.protocol.records import LENGTH_AT, LENGTH_BYTES_MIN, LENGTH_OVERHEAD_BYTES, MAX_TIMESTAMP_AT, RECORDS_AT
from ottla.storage import names
from ottla.storage.offset_index import ENTRY_BYTES as OFFSET_ENTRY_BYTES
from ottla.storage.offset_index import PAGE_ENTRIES, RELATIVE_OFFSET_MAX, OffsetIndex
from ottla.storage.pending import FileSync
from ottla.storage.scan import BatchScan
from ottla.storage.time_index import ENTRY_BYTES as TIME_ENTRY_BYTES
from ottla.storage.time_index import NO_TIMESTAMP, TimeEntry, TimeIndex
from ottla.storage.txn_index import TxnIndex

if TYPE_CHECKING:
    from ottla.config import LogConfig
    from ottla.ports import Disk, File, Sendable
    from ottla.storage.pending import Syncable

UNKNOWN = -2
NEVER_MS = 2**63
ALWAYS_MS = -2
"""Below every timestamp, no timestamp (-1) included."""
_WALK = struct.Struct(">qi11xi")
"""Base offset, length and last offset delta: all that a walk over batches reads."""
_LENGTH = struct.Struct(">i")
NOTHING_HELD: list[bytes | bytearray] = []
"""Shared, and never added to."""
_WALK_BYTES = 4096 + RECORDS_AT
STRETCH_BYTES_MIN = 64 * 1024
"""What is worth a call of its own to send it: less is read, and sent along with the rest of the answer."""
_MAX_TIMESTAMP = struct.Struct(">q")


class Segment:
    __slots__ = (
        "_directory",
        "_disk",
        "_file",
        "_offsets",
        "_taken_bytes",
        "_times",
        "_txns",
        "base_offset",
        "created_ms",
        "ending",
        "first_timestamp_ms",
        "has_index_backlog",
        "held",
        "held_from",
        "held_since",
        "index_position",
        "largest_ms",
        "largest_offset",
        "position",
        "preallocate_bytes",
        "roll_after_ms",
        "roll_offset",
        "roll_position",
        "roll_timestamp_ms",
        "taken",
        "undecided_from",
        "unsynced",
        "written",
    )

    def __init__(self, disk: Disk, directory: str, base_offset: int, *, created_ms: int, size_bytes: int) -> None:
        self._disk = disk
        self._directory = directory
        self._file: File | None = None
        self._offsets: OffsetIndex | None = None
        self._times: TimeIndex | None = None
        self._txns: TxnIndex | None = None
        self.base_offset = base_offset
        self.ending = ""
        """Added to the names of its files, while a compacted segment is about to replace it."""
        self.created_ms = created_ms
        self.undecided_from = UNKNOWN
        """Where the oldest transaction begins that was open when the segment began; its own beginning if none was."""
        self.position = self.taken = self.written = size_bytes
        self.held = NOTHING_HELD
        """Batches up to `written` that are in the journal, not in the file, in pieces; the first is one that can grow.
        Only the last segment of a log has any."""
        self.held_from = 0
        """Their position."""
        self.held_since = 0
        """Where the log ended without them."""
        self.preallocate_bytes = 0
        self.unsynced = False
        self._taken_bytes = max(0, size_bytes)  # it may not be known yet
        """How much of the file `take_unsynced` has taken before. No more than a hint: it may be cut meanwhile."""
        self.has_index_backlog = False
        """Whether enough index entries have gathered to be worth a write."""
        self.first_timestamp_ms = UNKNOWN
        self.largest_ms = UNKNOWN if size_bytes else NO_TIMESTAMP
        self.largest_offset = base_offset
        """The largest timestamp of all batches up to `position`, and the last offset of the batch that has it."""
        # Where the next append must stop and look closer. They say "always" until `prepare_appends`.
        self.roll_position = self.roll_offset = self.index_position = -1
        self.roll_timestamp_ms = ALWAYS_MS
        self.roll_after_ms = 0

    @classmethod
    def at_rest(cls, disk: Disk, directory: str, base_offset: int, *, created_ms: int) -> Segment:
        """A segment that is on disk, with everything about it still to be loaded."""
        return cls(disk, directory, base_offset, created_ms=created_ms, size_bytes=UNKNOWN)

    def path(self, suffix: str) -> str:
        return f"{self._directory}/{names.file_name(self.base_offset, suffix)}{self.ending}"

    # What is loaded when it is asked for

    @property
    def size_bytes(self) -> int:
        if self.position == UNKNOWN:
            try:
                self.position = self.taken = self.written = self._disk.size(self.path(names.LOG))
            except FileNotFoundError:
                self.position = self.taken = self.written = 0
        return self.position

    @property
    def offsets(self) -> OffsetIndex:
        if self._offsets is None:
            self._offsets = OffsetIndex(self._disk, self.path(names.OFFSET_INDEX), self.base_offset)
        return self._offsets

    @property
    def times(self) -> TimeIndex:
        if self._times is None:
            self._times = TimeIndex(self._disk, self.path(names.TIME_INDEX), self.base_offset)
        return self._times

    @property
    def txns(self) -> TxnIndex:
        if self._txns is None:
            self._txns = TxnIndex(self._disk, self.path(names.TXN_INDEX))
        return self._txns

    @property
    def largest_timestamp(self) -> TimeEntry:
        """The largest timestamp in it, and the last offset of the batch that has it."""
        if self.largest_ms == UNKNOWN:
            self.largest_ms, self.largest_offset = self.times.last
        return TimeEntry(self.largest_ms, self.largest_offset)

    @property
    def age_timestamp_ms(self) -> int:
        """What retention goes by: the youngest record, or the segment itself where records have no timestamps."""
        largest_ms = self.largest_timestamp.timestamp_ms
        return largest_ms if largest_ms >= 0 else self.created_ms

    @property
    def oldest_timestamp_ms(self) -> int:
        """About that of its first record."""
        self._load_first_timestamp()
        return self.first_timestamp_ms if self.first_timestamp_ms >= 0 else self.created_ms

    def _load_first_timestamp(self) -> None:
        if self.size_bytes and self.first_timestamp_ms == UNKNOWN:
            header = self.pread(RECORDS_AT, 0)
            self.first_timestamp_ms = _MAX_TIMESTAMP.unpack_from(header, MAX_TIMESTAMP_AT)[0]

    def file(self) -> File:
        if self._file is None:
            self._file = self._disk.open(self.path(names.LOG))
        return self._file

    def writable_file(self) -> File:
        """The file, made if it is missing. Any thread: only the one write under way of a log calls it."""
        file = self._file
        if file is None:
            file = self._disk.open(self.path(names.LOG), create=True)
            if self.preallocate_bytes:
                file.allocate(self.preallocate_bytes)
            self._file = file
        return file

    def pread(self, size: int, position: int) -> bytes:
        """As of a file, from what is in it and what is held. In the loop."""
        at = position - self.held_from
        if not self.held or at + size <= 0:
            return self.file().pread(size, position)
        held = self.join_held()
        if at >= 0:
            return bytes(memoryview(held)[at : at + size])
        return self.file().pread(-at, position) + held[: at + size]

    def join_held(self) -> bytearray:
        """What is held, of which there is something, in one piece: for the first who reads it, or if there are many."""
        held = self.held
        first = cast(bytearray, held[0])
        if len(held) > 1:
            first += b"".join(held[1:])
            del held[1:]
        return first

    # Appending

    def write_held(self) -> None:
        """Into the file. OSError if the disk refuses; then they are still held."""
        if self.held:
            self.writable_file().pwritev(self.held, self.held_from)
            self.held = NOTHING_HELD

    def prepare_appends(self, config: LogConfig, jitter_ms: int) -> None:
        """Work out at which position, time and offset an append must look closer, so that most need not."""
        size = self.size_bytes
        self._load_first_timestamp()
        self.largest_ms, self.largest_offset = self.largest_timestamp
        self.preallocate_bytes = config.segment_bytes if config.preallocate else 0
        self.roll_after_ms = config.segment_ms - jitter_ms
        if config.compacts:  # only closed segments are compacted
            self.roll_after_ms = min(self.roll_after_ms, config.max_compaction_lag_ms)
        self.roll_position = -1 if self.indexes_are_full(config) else config.segment_bytes
        self.roll_offset = self.base_offset + RELATIVE_OFFSET_MAX
        last = self.offsets.last() if size else None
        self.index_position = (last.position if last else 0) + config.index_interval_bytes if size else -1
        self._set_roll_timestamp()

    def _set_roll_timestamp(self) -> None:
        """Only records make a segment age, an empty one does not."""
        first_ms = self.first_timestamp_ms
        if first_ms == UNKNOWN:
            self.roll_timestamp_ms = NEVER_MS
        else:
            self.roll_timestamp_ms = first_ms + self.roll_after_ms if first_ms >= 0 else ALWAYS_MS

    def is_due(self, *, size_bytes: int, timestamp_ms: int, last_offset: int, now_ms: int, config: LogConfig) -> bool:
        """Whether a batch like this should not go into this segment any more."""
        if not self.position:
            return last_offset > self.roll_offset
        if self.first_timestamp_ms >= 0:
            waited_ms = timestamp_ms - self.first_timestamp_ms
        else:
            waited_ms = now_ms - self.created_ms
        return (
            self.position + size_bytes > config.segment_bytes
            or waited_ms > self.roll_after_ms
            or last_offset > self.roll_offset
            or self.indexes_are_full(config)
        )

    def indexes_are_full(self, config: LogConfig) -> bool:
        """The time index keeps one entry free, for the one that closes it."""
        limit = config.segment_index_bytes
        return bool(self.position) and (
            len(self.offsets) >= limit // OFFSET_ENTRY_BYTES or len(self.times) >= limit // TIME_ENTRY_BYTES - 1
        )

    def index_batch(self, last_offset: int, position: int, config: LogConfig) -> None:
        """A batch at `position` is the first of the segment, or far enough from the last index entry for a new one.

        The largest timestamp includes it already; `position` of the segment does not.
        """
        if position:
            self.offsets.append(last_offset, position)
            self.times.append(self.largest_ms, self.largest_offset)
            if self.indexes_are_full(config):
                self.roll_position = -1
            self.has_index_backlog = self.offsets.backlog >= PAGE_ENTRIES
        else:
            self.first_timestamp_ms = self.largest_ms
            self._set_roll_timestamp()
        self.index_position = position + config.index_interval_bytes

    # Reading

    def locate(self, offset: int, end: int) -> int | None:
        """The position of the batch that holds `offset`, or of the first after it; None if that is not before `end`."""
        if not end:
            return None
        if offset <= self.base_offset:
            return 0
        position = self.offsets.lookup(offset)
        while position < end:
            piece = self.pread(min(_WALK_BYTES, end - position), position)
            at = 0
            while at + _WALK.size <= len(piece):
                base_offset, length, delta = _WALK.unpack_from(piece, at)
                if length < LENGTH_BYTES_MIN or delta < 0 or base_offset < self.base_offset:
                    raise self.corrupt(position + at)
                if base_offset + delta >= offset:
                    return position + at
                at += length + LENGTH_OVERHEAD_BYTES
            if not at:
                raise self.corrupt(position)
            position += at
        return None

    def read(self, start: int, end: int, max_bytes: int, min_one_batch: bool) -> bytes:
        """The bytes from `start` on: at most `max_bytes`, but the first batch whole, or nothing if that is too much."""
        if max_bytes >= end - start:
            return self.pread(end - start, start)
        data = self.pread(max(max_bytes, LENGTH_OVERHEAD_BYTES), start)
        first = _LENGTH.unpack_from(data, LENGTH_AT)[0] + LENGTH_OVERHEAD_BYTES
        if first <= max_bytes:
            return data
        return self.pread(min(first, end - start), start) if min_one_batch else b""

    def stretch(self, start: int, end: int, max_bytes: int, min_one_batch: bool) -> Sendable:
        """As `read`, for somebody who sends it."""
        size = min(max_bytes, end - start)
        filled = self.held_from if self.held else self.written
        if size < STRETCH_BYTES_MIN or start + size > filled:
            return self.read(start, end, max_bytes, min_one_batch)
        header = self.pread(RECORDS_AT, start)
        if _LENGTH.unpack_from(header, LENGTH_AT)[0] + LENGTH_OVERHEAD_BYTES > max_bytes:
            return self.read(start, end, max_bytes, min_one_batch)
        return self.file().stretch(size, start, header)

    def corrupt(self, position: int) -> BrokerError:
        return BrokerError(
            ErrorCode.CORRUPT_MESSAGE, f"{self.path(names.LOG)}: no record batch starts at position {position}"
        )

    def scan(self, position: int = 0) -> BatchScan:
        """The batches from `position` on that can be read."""
        end = self.written if self.size_bytes else 0
        return BatchScan(self if end else None, position, end)

    # Cutting and closing

    def truncate_to(self, offset: int, position: int) -> None:
        """Cut at `position`, where the batch with `offset` starts: it and all after it are gone."""
        in_file = min(position, self.held_from) if self.held else position
        self.held = [self.join_held()[: position - in_file]] if position > in_file else NOTHING_HELD
        # Cut there even if it should end there: a write that was refused may have left a part of what was held.
        self.writable_file().truncate(in_file)
        self.position = self.taken = self.written = position
        self.unsynced = True
        self.offsets.truncate_to(offset)
        self.times.truncate_to(offset)
        self.txns.truncate_to(offset)
        self.largest_ms, self.largest_offset = self._largest_after_cut()
        if not position:
            self.first_timestamp_ms = UNKNOWN

    def _largest_after_cut(self) -> TimeEntry:
        """The time index lags behind by what lies after the last offset index entry: look at those batches."""
        last = self.offsets.last()
        largest = self.times.last
        for batch in self.scan(last.position if last else 0):
            timestamp_ms = _MAX_TIMESTAMP.unpack_from(batch, MAX_TIMESTAMP_AT)[0]
            if timestamp_ms > largest.timestamp_ms:
                base_offset, _, delta = _WALK.unpack_from(batch)
                largest = TimeEntry(timestamp_ms, base_offset + delta)
        return largest

    def end_offset(self) -> int:
        """Where the last batch that is in the file ends."""
        last = self.offsets.last()
        end_offset = self.base_offset
        for batch in self.scan(last.position if last else 0):
            base_offset, _, delta = _WALK.unpack_from(batch)
            end_offset = base_offset + delta + 1
        return int(end_offset)

    def flush_indexes(self) -> None:
        """Write the index entries that have gathered."""
        self.has_index_backlog = False
        if self._offsets is not None:
            self._offsets.flush()
        if self._times is not None:
            self._times.flush()
        if self._txns is not None:
            self._txns.flush()

    def give_back_room(self) -> None:
        """After the last write: what was reserved for the segment and not needed."""
        if self.preallocate_bytes:
            self.preallocate_bytes = 0
            self.writable_file().truncate(self.written)

    def seal(self) -> None:
        """No more appends, or none before the next start: the indexes say all there is to say."""
        self.times.append(*self.largest_timestamp)
        self.flush_indexes()
        self.offsets.file.ensure_exists()
        self.times.file.ensure_exists()

    def take_unsynced(self) -> list[Syncable]:
        """The files that hold what is not on the medium, records first."""
        targets: list[Syncable] = []
        if self.unsynced:
            self.unsynced = False
            targets.append(FileSync(self.file(), since=self._taken_bytes))
            self._taken_bytes = self.written
        indexes = [index.file.sync_target() for index in (self._offsets, self._times) if index is not None]
        if self._txns is not None:
            indexes.append(self._txns.sync_target())
        # An index is written to again at the next checkpoint: a descriptor is of more use to a log.
        return targets + [FileSync(index, and_close=True) for index in indexes if index is not None]

    def take_new_names(self) -> bool:
        """Whether index files were made whose names may not be durable. Asked once each."""
        files = [index.file for index in (self._offsets, self._times) if index is not None]
        is_new = any(file.take_new_name() for file in files)
        return (self._txns is not None and self._txns.take_new_name()) or is_new

    def close(self) -> None:
        """Give the files back. They open again if somebody asks."""
        for index in (self._offsets, self._times):
            if index is not None:
                index.file.close()
        if self._txns is not None:
            self._txns.close()
        if self._file is not None:
            self._file.close()
            self._file = None
        self._offsets = self._times = self._txns = None

    def mark_deleted(self, ending: str = names.DELETED) -> list[str]:
        """Rename the files, so that a crash from here on does not bring them back. Returns the new names."""
        self.close()
        self.held = NOTHING_HELD
        renamed = []
        for suffix in names.SEGMENT_SUFFIXES:
            path = self.path(suffix)
            if self._disk.exists(path):
                self._disk.rename(path, path + ending)
                renamed.append(path + ending)
        return renamed

    def discard(self) -> None:
        """Remove the files, in an order that a crash can't turn into a log with a hole."""
        for path in self.mark_deleted():
            self._disk.remove(path)
