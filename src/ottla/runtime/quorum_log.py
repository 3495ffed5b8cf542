"""The log of `__cluster_metadata-0` as Raft sees it: entries with indexes, instead of batches with offsets.

Offsets count records and indexes count batches, so the offset at which each entry begins is kept in an array. It is
filled once when the log is opened, and follows what is appended and cut. What is not durable yet is not here.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.errors import invariant
from ottla.protocol.records import BatchHeader, iter_batches
from ottla.raft.entry import Entry, EntryId, EntryKind, Snapshot
from ottla.runtime.quorum_entries import batch_of, entry_of
from ottla.storage.append import Origin

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.storage.log import Log

READ_BYTES = 1 << 20


class QuorumLog:
    """A `StableLog`. Raft keeps this very object, whatever becomes of the log.

    The quorum writes through it: `append`, then a commit.
    """

    def __init__(self, log: Log, *, snapshot: Snapshot, snapshot_end: int, base: EntryId, base_offset: int) -> None:
        """Where the first entries after the snapshot and after `base` begin is said too."""
        self.log = log
        self.snapshot = snapshot
        self.base = base
        self.grown_bytes = 0
        """What has been appended since the snapshot, roughly."""
        self._starts = array("q")
        """Where each entry after the base begins, and last, where the next one will."""
        self._scan(base_offset, snapshot_end)

    def _scan(self, at: int, snapshot_end: int) -> None:
        for batch in self._batches(at, self.log.end_offset):
            self._starts.append(batch.base_offset)
            at = batch.last_offset + 1
            if at > snapshot_end:
                self.grown_bytes += batch.size_bytes
        invariant(at == self.log.end_offset, f"the metadata log ends at {self.log.end_offset}, and can be read to {at}")
        self._starts.append(at)

    def _batches(self, at: int, upto: int) -> Iterator[BatchHeader]:
        while at < upto:
            before = at
            for batch in iter_batches(self.log.read(at, READ_BYTES, upto_offset=upto, min_one_batch=True)):
                yield batch
                at = batch.last_offset + 1
            invariant(at > before, f"nothing can be read at {at} of the metadata log, which ends at {upto}")

    # For Raft

    @property
    def last_index(self) -> int:
        return self.base.index + len(self._starts) - 1

    def read(self, first: int, last: int, bytes_max: int) -> Sequence[Entry]:
        invariant(self.base.index < first <= last <= self.last_index, f"entries {first} to {last} are not in the log")
        found: list[Entry] = []
        for index, batch in enumerate(self._batches(self.start_offset(first), self.end_offset(last)), first):
            entry = entry_of(batch, index)
            bytes_max -= entry.size_bytes
            if found and bytes_max < 0:
                break
            found.append(entry)
        return found

    # Offsets

    def start_offset(self, index: int) -> int:
        """Where an entry begins, or the one after the last would."""
        return self._starts[index - self.base.index - 1]

    def end_offset(self, index: int) -> int:
        """The offset after an entry; of the base too."""
        return self._starts[index - self.base.index]

    def end_offset_near(self, index: int) -> int:
        """Of another node, which may have less than is still here."""
        return self.end_offset(min(max(index, self.base.index), self.last_index))

    # Writing

    def append(self, entries: Sequence[Entry], *, now_ms: int) -> None:
        """Into the log's memory: durable with the next commit. BrokerError if the disk has no room."""
        expected = self.log.end_offset
        for entry in entries:
            batch = batch_of(entry)
            if entry.kind is EntryKind.DATA:
                said = BatchHeader.parse(batch).base_offset
                invariant(said == expected, f"entry {entry.index} is for offset {said}, and would get {expected}")
            self.log.append_as_leader(batch, leader_epoch=entry.term, now_ms=now_ms, origin=Origin.COORDINATOR)
            expected = self.log.end_offset
            self._starts.append(expected)
            self.grown_bytes += len(batch)

    def cut(self, index: int) -> None:
        """The log has been truncated before this entry."""
        del self._starts[index - self.base.index :]
        invariant(self._starts[-1] == self.log.end_offset, f"the log was cut to {self.log.end_offset}")

    def begin_anew(self, snapshot: Snapshot) -> None:
        """A snapshot has taken the place of the log, which is empty and goes on after it."""
        self.base = snapshot.last
        self.snapshot = snapshot
        self.grown_bytes = 0
        self._starts = array("q", [self.log.end_offset])

    def compact(self, base: EntryId, snapshot: Snapshot) -> None:
        """There is a new snapshot, and what stands before `base` is not needed any more."""
        del self._starts[: base.index - self.base.index]
        self.base = base
        self.snapshot = snapshot
        self.grown_bytes = 0
