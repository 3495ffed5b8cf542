"""The log of one partition.

A batch goes through it like this: `append_as_leader` checks it, gives it an offset and a position, and puts it among
the `pending`; a commit takes them (`take_pending`), writes them into the segment files, perhaps in a thread, and into
the journal; from `PendingWrite.finish` on they can be read, from `mark_durable` on they are safe. Much later `sync`
puts the segment files themselves on the medium, and the journal may forget them.

    recovery_point ≤ durable_offset ≤ written_offset ≤ end_offset

Everything is called in the event loop, save what `pending` says may run in a thread.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, TypeVar

from ottla.errors import BrokerError, DiskFailedError, ErrorCode, invariant
from ottla.ports import Stretch, header_of
from ottla.storage import names, search
from ottla.storage.append import Origin
from ottla.storage.loading import load
from ottla.storage.log_append import LogAppends
from ottla.storage.log_state import EPOCH_NOT_LOADED
from ottla.storage.pending import FileSync, ReplaceFile, name_syncs
from ottla.storage.producer_state import ProducerState
from ottla.storage.replay import producers_at
from ottla.storage.retention import DeletedSegment, Reason, expired
from ottla.storage.scan import end_of_batches
from ottla.storage.segment import UNKNOWN, Segment

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.config import LogConfig
    from ottla.ports import Disk, Sendable
    from ottla.storage.pending import Syncable
    from ottla.storage.search import Found
    from ottla.storage.txn_index import AbortedTransaction
    from ottla.types import TopicId, TopicPartition

__all__ = ["Log", "Origin"]

_SNAPSHOT_EVERY_BYTES = 16 << 20
"""A sync leaves a producer snapshot if this much was appended since the last: what a lookup of producers may scan."""
B = TypeVar("B", bound="Sendable")

_WALKED_BYTES_MAX = 16 << 10
"""What was read is gone over batch by batch to find where it ends if it is not more than this; else the index tells."""
_OFFSET = struct.Struct(">q")


class Log(LogAppends):
    """Appends are in `log_append`, state and settings in `log_state`: here is all else that is done with a log."""

    __slots__ = ()

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: str,
        partition: TopicPartition,
        topic_id: TopicId,
        config: LogConfig,
        *,
        clean: bool,
        recovery_point: int = 0,
        start_offset: int = 0,
        now_ms: int,
    ) -> Log:
        """A log as it is on disk; an empty one if it isn't there. `report` says what had to be repaired.

        After a crash `durable_offset` is the recovery point, until the log has been synced.
        """
        loaded = load(
            disk,
            directory,
            config,
            clean=clean,
            recovery_point=recovery_point,
            start_offset=start_offset,
            now_ms=now_ms,
        )
        return cls(disk, directory, partition, topic_id, config, loaded=loaded, now_ms=now_ms)

    # Reading

    def read(self, offset: int, max_bytes: int, *, upto_offset: int, min_one_batch: bool) -> bytes:
        """Batches from the one that holds `offset` on, none at or after `upto_offset`, which must start a batch.

        At most `max_bytes`, so the last batch may be cut off; but the first is whole (if `min_one_batch`) or there is
        none. Nothing where the offset is in the log but not below `upto_offset`; OFFSET_OUT_OF_RANGE outside of it.
        """
        return self._take(Segment.read, offset, max_bytes, upto_offset, min_one_batch)

    def stretch(self, offset: int, max_bytes: int, *, upto_offset: int, min_one_batch: bool) -> Sendable:
        """As `read`, for somebody who sends it."""
        return self._take(Segment.stretch, offset, max_bytes, upto_offset, min_one_batch)

    def _take(
        self,
        take: Callable[[Segment, int, int, int, bool], B],
        offset: int,
        max_bytes: int,
        upto_offset: int,
        min_one_batch: bool,
    ) -> B | bytes:
        written_offset = self.written_offset
        if upto_offset > written_offset:
            upto_offset = written_offset
        if not self.start_offset <= offset < upto_offset:
            if self.start_offset <= offset <= self.end_offset:
                return b""
            raise BrokerError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.partition}: offset {offset} is not between {self.start_offset} and {self.end_offset}",
            )
        self._is_read = True
        active = self._active
        try:
            for segment in (active,) if offset >= active.base_offset else self.segments[self._number(offset) :]:
                end = self._end_below(segment, upto_offset)
                start = self._known_positions.get(offset) if segment is active else None
                if start is None:
                    start = segment.locate(offset, end)
                if start is not None:
                    return take(segment, start, end, max_bytes, min_one_batch)
        except OSError as error:
            raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.partition}: {error}") from error
        return b""

    def _end_below(self, segment: Segment, upto_offset: int) -> int:
        """Where in a segment a reader must stop who may see what is below `upto_offset`."""
        if segment is self._active:
            if upto_offset == self.written_offset:
                return segment.size_bytes and segment.written
            known = self._known_positions.get(upto_offset)
            if known is not None:
                return known
        elif segment.size_bytes and upto_offset >= self.segments[self._number(segment.base_offset) + 1].base_offset:
            return segment.written
        end = segment.locate(upto_offset, segment.size_bytes and segment.written)
        return segment.written if end is None else end

    def aborted_transactions(self, from_offset: int, upto_offset: int) -> list[AbortedTransaction]:
        """Those with records in the range: what a reader of committed records must skip."""
        aborted: list[AbortedTransaction] = []
        number, count = self._number(from_offset), len(self.segments)
        while True:
            found, is_complete = self.segments[number].txns.collect(from_offset, upto_offset)
            aborted += found
            number += 1
            if is_complete or number == count or self._undecided_from(number) >= upto_offset:
                return aborted

    def aborted_among(self, records: Sendable, from_offset: int, upto_offset: int) -> list[AbortedTransaction]:
        """Those with records in what was read from here, and perhaps a few that begin soon after it."""
        (base_offset,) = _OFFSET.unpack_from(header_of(records))
        number = self._number(base_offset)
        segment, following = self.segments[number], number + 1
        if following < len(self.segments):
            end_offset = self.segments[following].base_offset
            if not segment.txns.aborted and self._undecided_from(following) >= end_offset:
                return []
            upto_offset = min(upto_offset, end_offset)
        elif not segment.txns.aborted:
            return []
        if not isinstance(records, Stretch) and len(records) <= _WALKED_BYTES_MAX:
            upto_offset = min(upto_offset, end_of_batches(records))
        else:
            upto_offset = min(upto_offset, segment.offsets.beyond(base_offset, len(records)) or upto_offset)
        return self.aborted_transactions(max(base_offset, from_offset), upto_offset)

    def _undecided_from(self, number: int) -> int:
        """Where transactions begin that may have ended in a segment, or later: not before this."""
        segment = self.segments[number]
        if segment.undecided_from == UNKNOWN:
            known = self.snapshots.oldest_open(segment.base_offset)
            segment.undecided_from = 0 if known is None else known
        return segment.undecided_from

    def offset_for_timestamp(self, timestamp_ms: int) -> Found | None:
        """The first record that is not older, and the epoch of its leader."""
        return search.first_at_or_after(self.segments, timestamp_ms, self.start_offset, self.written_offset)

    def max_timestamp(self, upto_offset: int | None = None) -> Found | None:
        """The first record with the largest timestamp, of those below `upto_offset`."""
        written = self.written_offset
        upto_offset = written if upto_offset is None else min(upto_offset, written)
        return search.largest(self.segments, self.start_offset, upto_offset)

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """The largest epoch that is not above `leader_epoch`, and where it ended; (-1, -1) if unknown."""
        return self.leader_epochs.end_offset_for(leader_epoch, self.end_offset)

    # Cutting

    def delete_records_before(self, offset: int) -> None:
        """The log starts at `offset` now, if that is later than it did. Retention removes what is below."""
        if offset > self.end_offset:
            raise BrokerError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"{self.partition} ends at {self.end_offset}, not {offset}"
            )
        if offset > self.start_offset:
            self.start_offset = offset
            self.leader_epochs.truncate_from_start(offset)

    def truncate_to(self, offset: int) -> int:
        """Drop `offset` and everything after it. Returns the new end: the start of the batch that held `offset`."""
        self._require_quiet()
        self.end_swap()
        self.write_pending()
        if offset >= self.end_offset:
            self.leader_epochs.truncate_from_end(self.end_offset)
            return self.end_offset
        if offset <= self.segments[0].base_offset:
            self.truncate_fully_and_start_at(offset)
            return offset
        had_producers = self._producers is None or self._producers.producers
        number = self._number(offset)
        for segment in self.segments[number + 1 :]:
            segment.discard()
        del self.segments[number + 1 :]
        segment = self._active = self.segments[number]
        position = segment.locate(offset, segment.size_bytes)
        if position is not None:
            first = _OFFSET.unpack(segment.pread(_OFFSET.size, position))[0]
            segment.truncate_to(first, position)
            self._has_index_debts = True
        # Where compaction left a gap, the log ends before it, as it would after a restart.
        offset = segment.end_offset()
        self._end_at(offset)
        self.leader_epochs.truncate_from_end(offset)
        self.snapshots.remove_after(offset)
        self._producers = producers_at(self.segments, self.snapshots, offset) if had_producers else self._producers
        return offset

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything; the next record gets `offset`."""
        self._require_quiet()
        self.end_swap()
        self._forget_pending()
        self.ensure_directory()
        old, self.segments = self.segments, []
        for segment in old:
            segment.discard()
        self._active = Segment(self.disk, self.directory, offset, created_ms=self._clock_ms, size_bytes=0)
        self._active.writable_file()
        self.segments.append(self._active)
        self.start_offset = offset
        self._end_at(offset)
        self.leader_epochs.clear()
        self.snapshots.remove(list(self.snapshots.offsets))
        self._producers = ProducerState()

    def _end_at(self, offset: int) -> None:
        self.end_offset = self.written_offset = offset
        self.start_offset = min(self.start_offset, offset)
        self.durable_offset = min(self.durable_offset, offset)
        self.recovery_point = min(self.recovery_point, offset)
        self.journaled_from = min(self.journaled_from, offset)
        self.clean_offset = min(self.clean_offset, offset)
        self.cuts += 1
        self._active.roll_position = -1
        self._snapshot_position = 0
        self._known_positions = {}
        self._names_unsynced = True
        self._last_epoch = EPOCH_NOT_LOADED

    def _require_quiet(self) -> None:
        invariant(not self._in_flight and self._holding is None, f"{self.partition}: a write is under way")

    def delete_old_segments(self, now_ms: int, high_watermark: int) -> list[DeletedSegment]:
        """Take the segments out that retention lets go. Their files are renamed; `remove` each when convenient."""
        doomed = expired(
            self.segments,
            self._config,
            start_offset=self.start_offset,
            end_offset=self.end_offset,
            high_watermark=high_watermark,
            now_ms=now_ms,
        )
        if not doomed:
            return []
        if self.swap is not None:
            self.end_swap()
            return self.delete_old_segments(now_ms, high_watermark)
        if len(doomed) == len(self.segments):
            self.roll(now_ms)
        self._active.writable_file()
        if self._names_unsynced:
            # The file that says where the log goes on must not vanish with those before it.
            for target in name_syncs(self.disk, self.directory):
                target.sync()
        del self.segments[: len(doomed)]
        self.delete_records_before(self.segments[0].base_offset)
        self._names_unsynced = True
        return [self._deleted(segment, reason) for segment, reason in doomed]

    def _deleted(self, segment: Segment, reason: Reason) -> DeletedSegment:
        size_bytes = segment.size_bytes
        self.snapshots.remove([segment.base_offset])
        return DeletedSegment(
            base_offset=segment.base_offset,
            size_bytes=size_bytes,
            reason=reason,
            paths=segment.mark_deleted(),
            disk=self.disk,
        )

    # Compaction

    def replace_segments(self, old: list[Segment], new: list[Segment]) -> None:
        """The `new` ones hold what is left of the `old` ones, which are the first of the log."""
        invariant(self.segments[: len(old)] == old and self._active not in old, f"{self.partition} has changed")
        self.segments[: len(old)] = new
        bases = {segment.base_offset for segment in new}
        self.snapshots.remove([segment.base_offset for segment in old if segment.base_offset not in bases])

    def end_swap(self) -> None:
        """Before the log is cut: compacted segments are in it, or forgotten."""
        if self.swap is not None:
            self.swap.hurry()

    # Syncing, reloading, closing

    def take_dirty_files(self) -> list[Syncable]:
        """What to sync, in this order, so that everything below `written_offset` is in the segment files for good."""
        self.write_held()
        if not self._has_directory:
            return []
        # The segment that ends at the recovery point is in it: it may have been sealed since.
        first = self._number(self.recovery_point - 1)
        targets: list[Syncable] = []
        # Writes first: if the disk has no room for them, nothing that must be synced has been taken yet.
        for segment in self.segments[first:]:
            segment.flush_indexes()
        if self._active.position - self._snapshot_position >= _SNAPSHOT_EVERY_BYTES:
            self._write_snapshot()
        self._has_index_debts = False
        for segment in self.segments[first:]:
            targets += segment.take_unsynced()
            self._names_unsynced |= segment.take_new_names()
        targets += self.snapshots.take_unsynced()
        if self._new_metadata is not None:
            targets.append(FileSync(self._new_metadata, and_close=True))
            self._new_metadata = None
        if self._epochs is not None and self._epochs.changed:
            self._epochs.changed = False
            targets.append(ReplaceFile(self.disk, f"{self.directory}/{names.LEADER_EPOCHS}", self._epochs.encode()))
            self._names_unsynced = True
        if self._names_unsynced:
            self._names_unsynced = False
            targets += name_syncs(self.disk, self.directory)
        return targets

    def _write_snapshot(self) -> None:
        self.snapshots.write(self.end_offset, self.producers)
        self._snapshot_position = self._active.position
        self.snapshots.remove_superseded({segment.base_offset for segment in self.segments})
        self._names_unsynced = True

    def synced_upto(self, offset: int) -> None:
        """What `take_dirty_files` returned is synced; `offset` is what `written_offset` was then."""
        self.recovery_point = max(self.recovery_point, offset)
        self.mark_durable(offset)

    def sync(self) -> None:
        """Put the segment files on the medium."""
        offset = self.written_offset
        for target in self.take_dirty_files():
            target.sync()
        self.synced_upto(offset)

    def reload(self, durable: int) -> None:
        """After a failed write: forget what is not durable, and take from the files what is."""
        self._in_flight = 0
        self._holding = None
        if self.swap is not None:
            self.swap.drop()  # what it has done is found in the directory
        self.cuts += 1
        before = self._last_sequences()
        recovery_point = min(self.recovery_point, durable)
        held, held_since = b"".join(self._active.held), self._active.held_since
        for segment in self.segments:
            segment.close()
        # If this fails nothing can be read here any more: indexes were cut, and readers would be told too little.
        self.written_offset = self.start_offset
        loaded = load(
            self.disk,
            self.directory,
            self._config,
            clean=False,
            recovery_point=recovery_point,
            start_offset=self.start_offset,
            now_ms=self._clock_ms,
        )
        self._take_over(loaded)
        if held and self.end_offset >= held_since:
            self._hold_again(held, held_since)
        if self.end_offset < durable:
            raise DiskFailedError(
                f"{self.partition}: offsets {self.end_offset} to {durable - 1} can't be read any more"
            )
        self.truncate_to(durable)
        self._refuse_what_was_taken_back(before)
        if self._has_directory:
            self.disk.sync_directory(self.directory)
        self.durable_offset = self.end_offset

    def _hold_again(self, held: bytes, since: int) -> None:
        """What was held is in the journal and not in the files: at most a part of it, if a write was refused."""
        self.truncate_to(since)
        self.append_as_follower(held)
        write = self.take_pending(hold_bytes_max=len(held))
        if write is not None and write.runs:  # it rolls where it did not before
            write.run()
            write.finish()
        elif write is not None:
            self.finish_held(write)

    def _last_sequences(self) -> dict[int, tuple[int, int]]:
        """Of each producer, its epoch and the last sequence number that was taken."""
        known = {} if self._producers is None else self._producers.producers
        return {producer_id: (producer.epoch, producer.last_sequence) for producer_id, producer in known.items()}

    def _refuse_what_was_taken_back(self, before: dict[int, tuple[int, int]]) -> None:
        if not before:
            return
        after = self.producers.producers
        for producer_id, (epoch, last_sequence) in before.items():
            producer = after.get(producer_id)
            if producer is None or producer.epoch != epoch:
                first = 0
            elif producer.last_sequence != last_sequence:
                first = producer.last_sequence + 1
            else:
                continue
            self.refusals.note(producer_id, epoch, first, ErrorCode.KAFKA_STORAGE_ERROR)

    def close(self) -> None:
        """Leave everything so that the next `open` is clean."""
        for target in self.begin_close():
            target.sync()
        self.end_close()

    def begin_close(self) -> list[Syncable]:
        """What to sync before `end_close`."""
        self.write_pending()
        self.write_held()
        if self.snapshots.latest != self.end_offset and self._has_directory and self._active.size_bytes:
            self._active.seal()
            self._write_snapshot()
        return self.take_dirty_files()

    def end_close(self) -> None:
        self.synced_upto(self.written_offset)
        for segment in self.segments:
            segment.close()
