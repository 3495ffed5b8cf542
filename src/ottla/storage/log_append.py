"""The way of a batch into a log: checked, given its offset and position, handed to a commit.

`append_as_leader` is the hottest code of the storage. It unpacks the header once, copies the body once, and otherwise
compares numbers; everything that is rare is in a function of its own, reached when a comparison crosses a bound.
"""

from __future__ import annotations

import logging
import struct
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeAlias

from ottla.errors import BrokerError, CorruptBatchError, ErrorCode
from ottla.protocol.records import (
    BATCH_HEADER,
    BODY_AT,
    CONTROL_BIT,
    HEAD,
    LENGTH_BYTES_MIN,
    LENGTH_OVERHEAD_BYTES,
    MAGIC,
    RECORDS_AT,
    TRANSACTIONAL_BIT,
    crc32c,
)
from ottla.storage.append import (
    CLIENT_ATTRIBUTES,
    Origin,
    adapt,
    no_sequence,
    not_from_a_client,
    out_of_time,
    read_marker,
    too_large_for_a_segment,
    unusable,
    wrong_crc,
)
from ottla.storage.held import NO_BOUND
from ottla.storage.log_state import NOTHING_PENDING, LogState
from ottla.storage.offset_index import RELATIVE_OFFSET_MAX
from ottla.storage.pending import PendingWrite, Run
from ottla.storage.producer_state import NO_OFFSET
from ottla.storage.refusals import REMEMBERED_MS, numbered
from ottla.storage.replay import note_abort, replay_batch
from ottla.storage.segment import NOTHING_HELD, Segment

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.ports import Bytes
    from ottla.storage.producer_state import Ended, Marker

log_lines = logging.getLogger(__name__)

STRANGER_LINES_MS = 60_000
"""Between two lines about producers of which nothing is known, for each log."""
_NO_TIMESTAMP = -1
_POSITIONS_KNOWN_MAX = 16
"""Ends of recent writes are where readers at the tail start and stop; this many of them need no search."""
HELD_PIECES_MAX = 64
"""A commit's share is held in the pieces that it came in. More small ones than this are joined into one, since each
takes up to three times its size in memory; to copy every one when it comes costs more than to keep it."""
HELD_SMALL_BYTES_MAX = 4 << 10
"""Of a share. Larger ones are written soon, and copied only if somebody reads them before."""

Header: TypeAlias = "tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]"
"""Of a batch. That these are thirteen numbers is what compiled code makes its arithmetic from."""

_unpack_header: Final[Callable[[Bytes], Header]] = BATCH_HEADER.unpack_from
_unpack_header_at: Final = BATCH_HEADER.unpack_from
_pack_head: Final = HEAD.pack
_crc32c: Final = crc32c
_CLIENT: Final = Origin.CLIENT  # looking up a member of an enumeration costs as much as ten comparisons
_CLIENT_ATTRIBUTES: Final = CLIENT_ATTRIBUTES


class LogAppends(LogState):
    __slots__ = ()

    def append_as_leader(self, records: Bytes, leader_epoch: int, now_ms: int, origin: Origin = Origin.CLIENT) -> int:
        """Append one batch. Returns the offset of its first record, or of the batch's that it repeats.

        The checks come in this order because it is the cheapest for a good batch, of which there are many.
        """
        try:
            (
                base_offset,
                length,
                _,
                magic,
                crc,
                attributes,
                last_offset_delta,
                _,
                max_timestamp_ms,
                producer_id,
                producer_epoch,
                base_sequence,
                count,
            ) = _unpack_header(records)
        except struct.error:
            raise unusable(records, self._config.max_message_bytes) from None
        size = len(records)
        if magic != MAGIC or length + LENGTH_OVERHEAD_BYTES != size or (size > self._size_max and origin is _CLIENT):
            raise unusable(records, self._config.max_message_bytes)
        body = bytes(records[BODY_AT:])
        if _crc32c(body) != crc:
            raise wrong_crc(self.partition)
        if origin is _CLIENT and (
            base_offset or attributes not in _CLIENT_ATTRIBUTES or count <= 0 or count != last_offset_delta + 1
        ):
            raise not_from_a_client(base_offset, attributes, last_offset_delta, count)
        if self._looks_inside:
            body, crc, max_timestamp_ms = adapt(records, body, crc, now_ms=now_ms, config=self._config, origin=origin)
            size = len(body) + BODY_AT
            length = size - LENGTH_OVERHEAD_BYTES
        if not now_ms - self._before_max_ms <= max_timestamp_ms <= now_ms + self._after_max_ms:
            self._check_time(max_timestamp_ms, now_ms, origin)

        offset = self.end_offset
        last_offset = offset + last_offset_delta
        segment = self._active
        position = segment.position
        if (
            position + size > segment.roll_position
            or max_timestamp_ms > segment.roll_timestamp_ms
            or last_offset > segment.roll_offset
        ):
            if size > self._config.segment_bytes:
                raise too_large_for_a_segment(size, self._config)
            try:
                segment = self._segment_for(size, max_timestamp_ms, offset, last_offset, now_ms)
            except BrokerError as error:
                self.refuse(records, error.code)  # there may be room for the next one, which must not overtake it
                raise
            position = segment.position
        if leader_epoch != self._last_epoch:
            self._assign_epoch(leader_epoch, offset)
        if producer_id >= 0:
            if attributes & CONTROL_BIT:
                marker = read_marker(bytes(records))
                self._end_transaction(segment, marker, producer_id, producer_epoch, offset, max_timestamp_ms)
            else:
                is_client = origin is _CLIENT
                if is_client and (base_sequence < 0 or producer_epoch < 0):
                    raise no_sequence(producer_id, producer_epoch, base_sequence)
                if is_client and self.refusals:
                    self._check_refusals(producer_id, producer_epoch, base_sequence, last_offset_delta + 1, now_ms)
                transactional = bool(attributes & TRANSACTIONAL_BIT)
                if transactional and is_client and self.verifies_transactions:
                    self.producers.require_transaction(producer_id, producer_epoch)
                try:
                    repeated = (self._producers or self.producers).append(
                        producer_id,
                        producer_epoch,
                        base_sequence,
                        last_offset_delta + 1,
                        offset,
                        max_timestamp_ms,
                        transactional,
                        is_client,
                    )
                except BrokerError:
                    self._check_gap(producer_id, producer_epoch, base_sequence, now_ms)
                    raise
                if repeated != NO_OFFSET:
                    if repeated >= 0:
                        return repeated
                    self._tell_of_stranger(producer_id, producer_epoch, base_sequence, now_ms)
        if max_timestamp_ms > segment.largest_ms:
            segment.largest_ms = max_timestamp_ms
            segment.largest_offset = last_offset
        if position > segment.index_position:
            segment.index_batch(last_offset, position, self._config)
        head = _pack_head(offset, length, leader_epoch, MAGIC, crc)
        if not self.pending_bytes:
            self.pending = []
        self.pending += (head, body)
        self.pending_bytes += size
        segment.position = position + size
        self.end_offset = last_offset + 1
        return offset

    def refuse(self, records: Bytes, code: ErrorCode) -> BrokerError:
        """The error for a batch that is not taken now, and may be sent again."""
        batch = numbered(records)
        if batch is not None:
            self.refusals.note(*batch, code)
        return BrokerError(code)

    def _check_refusals(self, producer_id: int, epoch: int, sequence: int, count: int, now_ms: int) -> None:
        """Where nothing is missing before a batch it is taken, whatever was refused: that came by another way."""
        if self.producers.has_all_before(producer_id, epoch, sequence, count):
            self.refusals.came_again(producer_id, epoch, sequence)
        else:
            self.refusals.check(producer_id, epoch, sequence, now_ms)

    def _check_gap(self, producer_id: int, epoch: int, sequence: int, now_ms: int) -> None:
        """A leader that is new takes no gap for the client's fault: what is missing is on its way to the old leader,
        which has not answered, and comes when it has. Raises BrokerError, of a kind that clients retry in order."""
        if now_ms <= self._gaps_until_ms and self.producers.misses_some_before(producer_id, epoch, sequence):
            raise BrokerError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"what producer {producer_id} has sent before sequence number {sequence} is not here yet",
            )

    def _tell_of_stranger(self, producer_id: int, epoch: int, sequence: int, now_ms: int) -> None:
        """It may have been silent for long, or its records deleted. If not, what it repeats is not recognised."""
        if now_ms - self._stranger_told_ms >= STRANGER_LINES_MS:
            self._stranger_told_ms = now_ms
            log_lines.info(
                "nothing is known of producer %d, which goes on with sequence number %d in epoch %d",
                producer_id,
                sequence,
                epoch,
                extra={"partition": str(self.partition), "offset": self.end_offset},
            )

    def append_as_follower(self, records: Bytes, *, now_ms: int = 0) -> None:
        """Append batches that a leader has accepted: from its fetch response, or from the journal.

        They keep their offsets and epochs. A batch that is cut off at the end is left out, as fetches end in one.
        """
        view, at, size = memoryview(records), 0, len(records)
        now_ms = now_ms or self._clock_ms
        while size - at >= RECORDS_AT:
            fields = _unpack_header_at(view, at)
            length = fields[1]
            end = at + length + LENGTH_OVERHEAD_BYTES
            if length < LENGTH_BYTES_MIN:
                raise CorruptBatchError(f"{self.partition}: a batch can't have length {length}")
            if end > size:
                return
            self._append_accepted(fields, bytes(view[at : at + BODY_AT]), bytes(view[at + BODY_AT : end]), now_ms)
            at = end

    def _append_accepted(self, fields: tuple[int, ...], head: bytes, body: bytes, now_ms: int) -> None:
        base_offset, length, leader_epoch, magic, crc, attributes, last_offset_delta, _, max_timestamp_ms = fields[:9]
        last_offset = base_offset + last_offset_delta
        if magic != MAGIC or _crc32c(body) != crc:
            raise CorruptBatchError(f"{self.partition}: the batch at offset {base_offset} is damaged")
        if base_offset < self.end_offset or last_offset < base_offset:
            raise CorruptBatchError(
                f"{self.partition}: offsets {base_offset} to {last_offset} can't follow {self.end_offset - 1}"
            )
        size = length + LENGTH_OVERHEAD_BYTES
        segment = self._active
        position = segment.position
        if (
            position + size > segment.roll_position
            or max_timestamp_ms > segment.roll_timestamp_ms
            or last_offset > segment.roll_offset
        ):
            # Compaction on the leader may have left a gap before the batch: it must not become one between segments.
            first_offset = self.end_offset if last_offset - self.end_offset <= RELATIVE_OFFSET_MAX else base_offset
            segment = self._segment_for(size, max_timestamp_ms, first_offset, last_offset, now_ms)
            position = segment.position
        if leader_epoch != self._last_epoch:
            self._assign_epoch(leader_epoch, base_offset)
        producer_id, producer_epoch, base_sequence = fields[9:12]
        if producer_id >= 0:
            if attributes & CONTROL_BIT:
                self._note_end(segment, replay_batch(head + body, self.producers))
            else:
                if self.refusals:
                    self.refusals.came_again(producer_id, producer_epoch, base_sequence)
                (self._producers or self.producers).replay(
                    producer_id,
                    producer_epoch,
                    base_sequence,
                    base_offset,
                    last_offset,
                    timestamp_ms=max_timestamp_ms,
                    transactional=bool(attributes & TRANSACTIONAL_BIT),
                )
        if max_timestamp_ms > segment.largest_ms:
            segment.largest_ms, segment.largest_offset = max_timestamp_ms, last_offset
        if position > segment.index_position:
            segment.index_batch(last_offset, position, self._config)
        if not self.pending_bytes:
            self.pending = []
        self.pending += (head, body)
        self.pending_bytes += size
        segment.position = position + size
        self.end_offset = last_offset + 1

    def _check_time(self, timestamp_ms: int, now_ms: int, origin: Origin) -> None:
        if origin is not Origin.CLIENT or timestamp_ms == _NO_TIMESTAMP:
            return
        earliest_ms = now_ms - self._config.message_timestamp_before_max_ms
        if not earliest_ms <= timestamp_ms <= now_ms + self._config.message_timestamp_after_max_ms:
            raise out_of_time(timestamp_ms, now_ms, self._config)

    def begin_epoch(self, leader_epoch: int, now_ms: int) -> None:
        """A leader begins to write here: what follows is of its epoch, and its followers are told so."""
        if self.leader_epochs.latest < leader_epoch:
            self._assign_epoch(leader_epoch, self.end_offset)
            if self.end_offset:
                self._gaps_until_ms = now_ms + REMEMBERED_MS

    def _assign_epoch(self, leader_epoch: int, offset: int) -> None:
        self.leader_epochs.assign(leader_epoch, offset)
        self._last_epoch = leader_epoch

    def _end_transaction(
        self, segment: Segment, marker: Marker | None, producer_id: int, epoch: int, offset: int, timestamp_ms: int
    ) -> None:
        if marker is not None:
            self.producers.check_marker(producer_id, epoch, marker)
            self._note_end(segment, self.producers.end_transaction(producer_id, epoch, marker, offset, timestamp_ms))

    def _note_end(self, segment: Segment, ended: Ended | None) -> None:
        if ended is not None and ended.aborted:
            note_abort(segment, ended)
            self._has_index_debts = True

    # Rolling

    def _segment_for(self, size: int, timestamp_ms: int, offset: int, last_offset: int, now_ms: int) -> Segment:
        """The segment that a batch like this goes into: a new one if its time has come."""
        segment = self._active
        try:
            if segment.roll_position < 0:
                segment.prepare_appends(self._config, self._jitter_ms(segment))
                self._producers = self.producers  # while there is little to scan, or nothing: it grows from here on
            if segment.is_due(
                size_bytes=size, timestamp_ms=timestamp_ms, last_offset=last_offset, now_ms=now_ms, config=self._config
            ):
                self._roll(offset, now_ms)
        except OSError as error:
            raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.partition} could not roll: {error}") from error
        return self._active

    def roll(self, now_ms: int) -> None:
        """Begin a new segment at the end of the log, unless the last one is empty."""
        if self._active.size_bytes:
            self._roll(self.end_offset, now_ms)

    def _roll(self, base_offset: int, now_ms: int) -> None:
        self.ensure_directory()
        old = self._active
        if old.position:
            old.write_held()
            if self._holding is not None:
                self._write_instead(self._holding)
            old.seal()
            self.snapshots.write(base_offset, self.producers)
            self._cuts += ((len(self.pending), old),)
            self._has_index_debts = True
            _give_back_room(old)
        else:
            self.segments.pop().discard()
        self._clock_ms = now_ms
        new = Segment(self.disk, self.directory, base_offset, created_ms=now_ms, size_bytes=0)
        new.prepare_appends(self._config, self._jitter_ms(new))
        if self.segments:
            new.undecided_from = self.producers.oldest_open(base_offset)
        self.segments.append(new)
        self._active = new
        self._snapshot_position = 0
        self._known_positions = {}
        self._names_unsynced = True

    def _jitter_ms(self, segment: Segment) -> int:
        """The same for the same segment, whenever it is opened, and different for the partitions of a topic."""
        most_ms = min(self._config.segment_jitter_ms, self._config.segment_ms)
        if not most_ms:
            return 0
        return int(crc32c(f"{self.partition.partition} {segment.base_offset}".encode() + self.topic_id)) % most_ms

    # Writing

    def take_pending(self, hold_bytes_max: int = 0, held_bytes_max: int = NO_BOUND) -> PendingWrite | None:
        """Everything that no write has taken yet, for a commit. None if there is nothing.

        What is not more than `hold_bytes_max` is not written but held (`held`), where not more than `held_bytes_max`
        is held already: it must be in the journal. The first write of a segment makes its file, and is never held.
        """
        size_bytes = self.pending_bytes
        if not size_bytes:
            return None
        buffers, self.pending, self.pending_bytes = self.pending, NOTHING_PENDING, 0
        segment = self._active
        if size_bytes <= hold_bytes_max and segment.written and self.held_bytes <= held_bytes_max and not self._cuts:
            segment.taken = segment.position
            write = self._holding = PendingWrite(self, buffers, size_bytes, self.end_offset)  # type: ignore[arg-type]  # it is a Log
            return write
        runs = self._runs(buffers) if self._cuts else [_run(segment, buffers)]
        self._in_flight += 1
        return PendingWrite(self, buffers, size_bytes, self.end_offset, runs)  # type: ignore[arg-type]  # it is a Log

    def _runs(self, buffers: list[bytes]) -> list[Run]:
        """Of a log that has rolled since the last write: each part goes into its own segment."""
        runs, start = [], 0
        for end, segment in self._cuts:
            if end > start:
                runs.append(_run(segment, buffers[start:end]))
            start = end
        self._cuts = ()
        if start < len(buffers):
            runs.append(_run(self._active, buffers[start:]))
        return runs

    def write_pending(self) -> None:
        """Take, write and finish in one."""
        write = self.take_pending()
        if write is not None:
            write.run()
            write.finish()

    def write_held(self) -> None:
        """Into the file. OSError if the disk refuses; then it is still held."""
        self._active.write_held()

    def finish_write(self, write: PendingWrite) -> None:
        """`write` is in the files."""
        self._in_flight -= 1
        for run in write.runs:
            segment = run.segment
            segment.held = NOTHING_HELD
            segment.written = run.end_position
            segment.unsynced = True
            if not run.position:
                self._names_unsynced = True
            if segment.has_index_backlog:
                _write_backlog(segment)
            if segment is not self._active:
                _give_back_room(segment)
        self.written_offset = write.end_offset
        if self._is_read and segment is self._active:
            self._know(write.end_offset, run.end_position)

    def _write_instead(self, write: PendingWrite) -> None:
        """The segment that was to hold `write` ends before its commit does. OSError if the disk refuses."""
        segment = self._active
        position = segment.taken - write.size_bytes
        segment.writable_file().pwritev(write.buffers, position)
        write.runs = [Run(segment, position, segment.taken, write.buffers)]
        self._holding = None
        self._in_flight += 1

    def finish_held(self, write: PendingWrite) -> None:
        """`write` is in the journal, durably: keep it for readers, and for a later write."""
        self._holding = None
        segment = self._active
        held = segment.held
        if not held:
            held = segment.held = [bytearray()]
            segment.held_from, segment.held_since = segment.written, self.written_offset
            segment.unsynced = True
        held += write.buffers
        if len(held) > HELD_PIECES_MAX and write.size_bytes < HELD_SMALL_BYTES_MAX:
            segment.join_held()
        segment.written = segment.taken
        if segment.has_index_backlog:
            _write_backlog(segment)
        self.written_offset = self.durable_offset = write.end_offset
        if self._is_read:
            self._know(write.end_offset, segment.taken)

    def _know(self, offset: int, position: int) -> None:
        known = self._known_positions
        known[offset] = position
        if len(known) > _POSITIONS_KNOWN_MAX:
            self._known_positions = dict(list(known.items())[_POSITIONS_KNOWN_MAX // 2 :])
            self._is_read = False

    def mark_durable(self, offset: int) -> None:
        """A commit has put everything below `offset` on the medium."""
        if offset > self.durable_offset:
            self.durable_offset = offset


def _write_backlog(segment: Segment) -> None:
    """An index can wait: if there is no room now, its entries stay in memory until there is, or the segment closes."""
    with suppress(OSError):
        segment.flush_indexes()


def _give_back_room(segment: Segment) -> None:
    """Of a segment that is complete. Room that can't be given back is no reason to fail."""
    if segment.written == segment.position:
        with suppress(OSError):
            segment.give_back_room()


def _run(segment: Segment, buffers: list[bytes]) -> Run:
    position, segment.taken = segment.taken, segment.position
    if segment.held:  # it goes first, and is not held any more when this is written
        position, buffers = segment.held_from, [b"".join(segment.held), *buffers]
    return Run(segment, position, segment.position, buffers)
