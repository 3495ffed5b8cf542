"""Work that goes on behind the commits: syncing the segments, so that the journal may forget.

A checkpoint covers everything that was committed before it began. It goes through the logs that the journal holds
something of, a slice at a time, so that the event loop is never away for long: the loop takes what a slice has to sync,
a thread syncs it, the loop takes the next. Of many logs several slices are synced together, since one sync of the whole
disk takes little longer than one of a file. When all logs are through, the checkpoint files at the top of the data
directory are written, and only then may the journal use its files again: from now on they are what recovery knows of
these logs.

All jobs have the same shape: `run` in a thread, then `finish` in the loop, which says what to run next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol, TypeAlias

from ottla.errors import DiskFailedError
from ottla.storage.group_commit import REFUSALS
from ottla.storage.journal import JournalFile
from ottla.storage.pending import MANY_SYNCS, FileSync, sync_written, write_replacements

if TYPE_CHECKING:
    from ottla.storage.group_commit import GroupCommit
    from ottla.storage.journal import FilePreparation
    from ottla.storage.log import Log
    from ottla.storage.pending import Syncable

LOGS_PER_SLICE = 16
"""Taking the dirty files of a log costs the loop some 30 µs, and several times that if its directory is new."""
SYNCED_TOGETHER = 1_024
"""Files that gather before they are synced, while there are more logs to come."""


Files: TypeAlias = "Callable[[Iterable[Log]], list[Syncable]]"
"""What must be written, once these logs are synced, before the journal may forget them."""


class Job(Protocol):
    """Something to be done off the event loop."""

    def run(self) -> None:
        """Any thread. Doesn't raise: what went wrong is `finish`'s to judge."""

    def finish(self) -> Job | None:
        """In the loop, after `run`. Returns what to run next, if this is not all."""


class Checkpoint:
    """Made by `begin_checkpoint`; then `run` and `finish` in turns, until `finish` returns None."""

    def __init__(self, group: GroupCommit, files: Files) -> None:
        self._group = group
        self._files = files
        in_flight = group.in_flight
        blocks = in_flight.blocks if in_flight is not None else []
        self._upto_number = in_flight.number if in_flight is not None else group.next_number
        self._upto_sequence = blocks[0].sequence if blocks else group.journal.next_sequence
        self._logs = dict.fromkeys(group.unsynced)
        """Those still to come."""
        self._journaled_from = {log: log.durable_offset for log in group.unsynced}
        """What the journal will still hold of each, once this is complete."""
        self._done: dict[Log, None] = {}
        self._offsets: dict[Log, int] = {}
        """Those whose files are taken and not synced, and how far they will be."""
        # The journal must not be behind what is in the segments for good: recovery would take it back.
        self._targets: list[tuple[Log | None, Syncable]] = [(None, file) for file in group.take_unsynced_files()]
        self._targets += group.left_over
        group.left_over = []
        self._is_gathering = False
        """Whether the next slice comes before what was taken is synced."""
        self._is_last = False
        self._error: OSError | None = None
        self._failed_sync = False
        """Whether the error is one of a sync, after which nobody knows what is on the medium."""

    def cut(self, log: Log, offset: int) -> None:
        """`log` was truncated to `offset` meanwhile: what it gets from there on is not what is being synced."""
        if log in self._offsets:
            self._offsets[log] = min(self._offsets[log], offset)
        if log in self._journaled_from:
            self._journaled_from[log] = min(self._journaled_from[log], offset)

    def forget(self, log: Log) -> None:
        """`log` was deleted meanwhile."""
        self._logs.pop(log, None)
        self._done.pop(log, None)
        self._offsets.pop(log, None)

    def is_syncing(self, log: Log) -> bool:
        return any(owner is log for owner, _ in self._targets)

    def run(self) -> None:
        if self._is_gathering:
            return  # the loop has had its turn meanwhile, which is what slices are for
        if len(self._targets) >= MANY_SYNCS:
            self._sync_together()
        else:
            self._sync_one_by_one()

    def _sync_together(self) -> None:
        targets = [target for _, target in self._targets]
        disk = next(owner.disk for owner, _ in self._targets if owner is not None)
        try:
            write_replacements(targets)
            self._failed_sync = True  # if it does not get past the next line
            sync_written(disk, targets)
        except OSError as error:
            self._error = error
        else:
            self._failed_sync = False
            self._targets.clear()

    def _sync_one_by_one(self) -> None:
        done = 0
        try:
            for _, target in self._targets:
                target.sync()
                done += 1
        except OSError as error:
            self._error = error
            self._failed_sync = isinstance(self._targets[done][1], FileSync | JournalFile)
        del self._targets[:done]

    def finish(self) -> Checkpoint | None:
        if self._error is not None:
            self._give_up(self._error)
            return None
        if not self._is_gathering:
            for log, offset in self._offsets.items():
                log.synced_upto(offset)
            self._offsets = {}
            self._group.look_for_quiet()
        if self._is_last:
            self._complete()
            return None
        return self.take_slice()

    def take_slice(self) -> Checkpoint | None:
        """What to sync next: some logs, or the files at the end."""
        self._is_gathering = False
        try:
            if self._logs:
                self._take_logs()
            elif not self._offsets:  # else those still to come were deleted, and what has gathered comes first
                self._is_last = True
                self._targets += [(None, file) for file in self._files(self._done)]
        except OSError as error:
            self._give_up(error)
            return None
        return self

    def _take_logs(self) -> None:
        for log in list(self._logs)[:LOGS_PER_SLICE]:
            self._offsets[log] = log.written_offset
            self._targets += [(log, target) for target in log.take_dirty_files()]
            self._group.held.forget(log)
            del self._logs[log]
            self._done[log] = None
        self._is_gathering = bool(self._logs) and len(self._targets) < SYNCED_TOGETHER

    def _give_up(self, error: OSError) -> None:
        """No room for an index or a checkpoint file: try again later. A failed sync of records is another matter."""
        if self._failed_sync or error.errno not in REFUSALS:
            self._group.poison(DiskFailedError(f"Could not sync a segment: {error}"))
        if not self._is_last:
            self._group.left_over += self._targets
        self._end()

    def _complete(self) -> None:
        group = self._group
        group.checkpointed(self._upto_number)
        group.journal.release(self._upto_sequence)
        for log, offset in self._journaled_from.items():
            log.journaled_from = max(log.journaled_from, offset)
        self._end()

    def _end(self) -> None:
        self._group.checkpoint = None
        self._group.look_for_quiet()


def begin_checkpoint(group: GroupCommit, files: Files) -> Checkpoint | None:
    """Everything committed so far. None if one is under way, or the disk refuses or has failed."""
    if group.checkpoint is not None or group.failure is not None:
        return None
    group.checkpoint = Checkpoint(group, files)
    return group.checkpoint.take_slice()


class PrepareFile:
    """The next file of the journal."""

    def __init__(self, group: GroupCommit, preparation: FilePreparation) -> None:
        self._group = group
        self._preparation = preparation

    def run(self) -> None:
        try:
            self._preparation.run()
        except OSError:
            return  # it is wanted for speed only; a small file will be made when there is need of one

    def finish(self) -> None:
        self._group.journal.add(self._preparation)


class SyncJournal:
    """With durability `interval`: what was journaled since the last sync."""

    def __init__(self, group: GroupCommit) -> None:
        self._group = group
        self._files = group.take_unsynced_files()
        blocks = group.in_flight.blocks if group.in_flight is not None else []
        self._upto_sequence = (blocks[0].sequence if blocks else group.journal.next_sequence) - 1
        self._error: OSError | None = None

    def run(self) -> None:
        try:
            for file in self._files:
                file.sync()
        except OSError as error:
            self._error = error

    def finish(self) -> None:
        if self._error is None:
            self._group.journal.mark_synced(self._upto_sequence)
        else:
            self._group.poison(DiskFailedError(f"Could not sync the journal: {self._error}"))
