"""How compacted segments take the place of the old ones, so that a crash at any moment leaves one or the other.

    1. indexes    x.index.cleaned, x.timeindex.cleaned, x.txnindex.cleaned  →  .swap
    2. log        x.log.cleaned                                             →  .swap      from here on: forward
    3. old ones   the files of every segment that x replaces                →  .deleted
    4. in place   x.index.swap, x.timeindex.swap, x.txnindex.swap           →  x.index …
    5. in place   x.log.swap                                                →  x.log

After each step the directory is synced, so a later step is on the medium only if all of those before it are. What is
found after a crash says what to do: a `.log.swap` is whole and has its indexes, and how far it reaches (its last batch
is never left out) tells which old segments it replaces, so the rest is done again; without one, everything is undone.

Names change in the event loop, where readers are, a few at a time so that clients have their turn in between; syncs
happen in a thread. Segments that were renamed go on being read under their new names. Whoever cuts the log in between
calls `Log.end_swap` first, which does the rest at once or undoes it.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from ottla.errors import CorruptLogError
from ottla.protocol.records import BATCH_HEADER
from ottla.storage import names
from ottla.storage.retention import DeletedSegment, Reason
from ottla.storage.scan import BatchScan
from ottla.storage.segment import Segment

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ottla.ports import Disk
    from ottla.storage.compaction_plan import Plan
    from ottla.storage.compaction_task import Done

_INDEXES = (names.OFFSET_INDEX, names.TIME_INDEX, names.TXN_INDEX)
_FORWARD = 2
"""After this many steps there is no way back."""
_STEPS = 5
_SEGMENTS_PER_SLICE = 4
"""Four files each, at some 20 µs."""


class Swap:
    """The groups of one compaction. `begin`, then `step` in the loop until `is_over`, with a `sync`, anywhere, whenever
    `needs_sync` says so.
    """

    def __init__(self, plan: Plan, done: Done) -> None:
        self._log = plan.log
        self._disk = plan.log.disk
        self._directory = plan.log.directory
        self._end_offset = plan.end_offset
        self._clean_offset = done.clean_offset
        self._cuts = plan.log.cuts
        by_base = {segment.base_offset: segment for segment in plan.segments}
        self._groups = [(group, [by_base[base] for base in group.bases]) for group in done.groups]
        self._steps_done = 0
        self._step: Iterator[None] | None = None
        """What is left of the one under way."""
        self.needs_sync = False
        """Whether a step has ended: the next one must not begin before the names are on the medium."""
        self.is_over = False
        self.is_complete = False
        """Whether the new segments are in the log."""
        self.deleted: list[DeletedSegment] = []
        """Once it is over: files that nobody needs any more."""

    def begin(self) -> bool:
        """Whether the log is still what was compacted; otherwise the new files are gone."""
        log = self._log
        old = [segment for _, segments in self._groups for segment in segments]
        if (
            log.swap is None
            and log.cuts == self._cuts
            and log.segments[: len(old)] == old
            and len(log.segments) > len(old)
        ):
            log.swap = self
            return True
        remove_cleaned(self._disk, self._directory, [group.bases[0] for group, _ in self._groups])
        return False

    def step(self) -> bool:
        """Do the next step, or a part of it. False if there is none."""
        if self.is_over:
            return False
        if self._step is None:
            steps = (self._name_indexes, self._name_logs, self._rename_old, self._place_indexes, self._place_logs)
            self._step = steps[self._steps_done]()
        self.needs_sync = len(list(islice(self._step, _SEGMENTS_PER_SLICE))) < _SEGMENTS_PER_SLICE
        if self.needs_sync:
            self._step = None
            self._steps_done += 1
            if self._steps_done == _STEPS:
                self.is_complete = True
                self._end()
        return True

    def sync(self) -> None:
        """The names in the directory. Any thread."""
        self._disk.sync_directory(self._directory)

    def drop(self) -> None:
        """The log is gone, or was loaded anew: there is nothing to do any more."""
        self._end()

    def hurry(self) -> None:
        """The log is about to be cut: be over now, this way or the other."""
        if self._steps_done < _FORWARD:
            self._undo()
            return
        while not self.is_over:
            if self._step is None:
                self.sync()
            self.step()
        self.sync()

    def _end(self) -> None:
        self.is_over = True
        self._log.swap = None

    def _undo(self) -> None:
        for suffix in (names.LOG, *_INDEXES):
            for group, _ in self._groups:
                for ending in (names.CLEANED, names.SWAP):
                    self._disk.remove(self._path(group.bases[0], suffix) + ending)
            self.sync()
        self._end()

    # The steps, segment by segment

    def _name_indexes(self) -> Iterator[None]:
        for group, _ in self._groups:
            for suffix in _INDEXES:
                self._rename(group.bases[0], suffix, names.CLEANED, names.SWAP)
            yield

    def _name_logs(self) -> Iterator[None]:
        for group, _ in self._groups:
            self._rename(group.bases[0], names.LOG, names.CLEANED, names.SWAP)
            yield

    def _rename_old(self) -> Iterator[None]:
        # They are still read: whoever removes those of the last compaction must not take these for them.
        ending = f".{self._clean_offset}{names.DELETED}"
        for _, segments in self._groups:
            for segment in segments:
                size_bytes, paths = segment.size_bytes, segment.mark_deleted(ending)
                segment.ending = ending
                self.deleted.append(
                    DeletedSegment(
                        base_offset=segment.base_offset,
                        size_bytes=size_bytes,
                        reason=Reason.COMPACTED,
                        paths=paths,
                        disk=self._disk,
                    )
                )
                yield

    def _place_indexes(self) -> Iterator[None]:
        for group, _ in self._groups:
            for suffix in _INDEXES:
                self._rename(group.bases[0], suffix, names.SWAP, "")
            yield

    def _place_logs(self) -> Iterator[None]:
        log = self._log
        new: list[Segment] = []
        for group, old in self._groups:
            self._rename(group.bases[0], names.LOG, names.SWAP, "")
            created_ms, size_bytes = old[-1].created_ms, group.size_bytes
            new.append(
                Segment(self._disk, self._directory, group.bases[0], created_ms=created_ms, size_bytes=size_bytes)
            )
            yield
        # Readers find all of the new ones at once: until now they read the old ones under their new names.
        old_segments = [segment for _, old in self._groups for segment in old]
        log.replace_segments(old_segments, new)
        for segment in old_segments:
            segment.close()
        log.clean_offset = max(log.clean_offset, self._clean_offset)

    def _rename(self, base_offset: int, suffix: str, ending: str, new_ending: str) -> None:
        path = self._path(base_offset, suffix)
        self._disk.rename(path + ending, path + new_ending)

    def _path(self, base_offset: int, suffix: str) -> str:
        return f"{self._directory}/{names.file_name(base_offset, suffix)}"


def remove_cleaned(disk: Disk, directory: str, bases: Sequence[int]) -> None:
    """New files that nobody waits for any more."""
    for base in bases:
        for suffix in names.SEGMENT_SUFFIXES:
            disk.remove(f"{directory}/{names.file_name(base, suffix)}{names.CLEANED}")


def finish_swaps(disk: Disk, directory: str, found: Sequence[str]) -> bool:
    """At a start: do the rest of what a crash interrupted. Whether there was anything."""
    swapped = [base for name in found if (base := names.offset_in_name(name, names.LOG + names.SWAP)) is not None]
    if not swapped:
        return False
    bases = [base for name in found if (base := names.offset_in_name(name, names.LOG)) is not None]
    for base in swapped:
        last_offset = _last_offset(disk, f"{directory}/{names.file_name(base, names.LOG)}{names.SWAP}")
        for old in bases:
            if base < old <= last_offset:
                for suffix in names.SEGMENT_SUFFIXES:
                    disk.remove(f"{directory}/{names.file_name(old, suffix)}")
    for suffixes in (_INDEXES, (names.LOG,)):
        disk.sync_directory(directory)
        for base in swapped:
            for suffix in suffixes:
                path = f"{directory}/{names.file_name(base, suffix)}"
                if path.rpartition("/")[2] + names.SWAP in found:
                    disk.rename(path + names.SWAP, path)
    disk.sync_directory(directory)
    return True


def _last_offset(disk: Disk, path: str) -> int:
    file = disk.open(path)
    try:
        scan = BatchScan(file, 0, file.size())
        last_offset = -1
        for batch in scan:
            fields = BATCH_HEADER.unpack_from(batch)
            last_offset = fields[0] + fields[6]
        if scan.problem or last_offset < 0:
            raise CorruptLogError(f"{path} was synced, and is damaged: {scan.problem or 'it is empty'}")
        return last_offset
    finally:
        file.close()
