"""One commit for all that was appended since the last.

    begin    loop        takes what the dirty logs have pending, and gives it a place in the journal
    run      any thread  writes the segments (page cache), then the journal, then syncs the journal; small shares are
                         not written into their segments yet but held in memory (`held`)
    finish   loop        readers find the records, and they are durable: now they may be acknowledged

A commit that must be whole (`keep_whole`) is one block, and goes into the journal first: records of one log may rest on
those of another, and what a segment holds of an interrupted commit may survive it.

Where a log has so much pending that writing it twice costs more than another sync, its segment is synced instead, and
the journal is only told that it was (SYNCED); what it held of that log before is void from then on.

What the journal holds is needed until the segments are synced themselves: `checkpoint` does that in the background.
Until then recovery finds in it everything that was acknowledged since the log's recovery point. What a segment holds
beyond that is a commit that the crash interrupted; nobody was told of it.

When the disk fails. A sync that fails may have lost what it covered, and a second one that succeeds says nothing about
it, since Linux drops the pages: the first failed sync is the last, `failure` is set, and every later commit raises it.
A full disk is not a failure. It refuses a write before anything depends on it, the commit is taken back, its logs are
as they were, and the next one may work.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from time import perf_counter_ns
from typing import TYPE_CHECKING

from ottla.config import Durability
from ottla.errors import DiskFailedError, invariant
from ottla.observability.metrics import Histogram
from ottla.storage.held import NO_BOUND, SHARE_BYTES_MAX, Held
from ottla.storage.journal_format import ENTRY_BYTES, Kind, append_entry, append_single, control_entry
from ottla.storage.pending import FileSync, PendingWrite
from ottla.types import METADATA_TOPIC_ID

if TYPE_CHECKING:
    from ottla.ports import Bytes
    from ottla.storage.checkpoint import Checkpoint
    from ottla.storage.journal import Block, Journal, JournalFile
    from ottla.storage.log import Log
    from ottla.storage.pending import Syncable
    from ottla.types import TopicId

SEGMENT_SYNC_BYTES_MIN = 768 << 10
"""From here on a log's share of a commit is synced in its segment instead of written twice (decisions/0002). Below what
clients make of a full batch by default, which is a million bytes: such a one alone is enough."""
BLOCK_BYTES_MAX = 8 << 20
"""A commit of more than this is several blocks, so that a journal file of usual size can hold each of them."""
JOIN_PIECES_MIN = 8
JOIN_PIECE_BYTES_MAX = 1 << 10
"""Many small pieces are joined before they are written twice: the kernel takes longer to gather them than we do."""
JOIN_PAYLOAD_MIN = 64
"""The same of many logs, for the journal alone."""
REFUSALS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE})
"""Errors of a write or an open that mean no, not now: nothing that was there before is in doubt."""

Step = Callable[[], None]


class Control:
    """What happens to a log besides appends."""

    __slots__ = ("apply", "kind", "log", "offset", "partition", "topic_id")

    def __init__(
        self, kind: Kind, topic_id: TopicId, partition: int, offset: int, log: Log | None, apply: Step | None
    ) -> None:
        self.kind = kind
        self.topic_id = topic_id
        self.partition = partition
        self.offset = offset
        self.log = log
        self.apply = apply

    def entry(self) -> bytes:
        return control_entry(self.kind, self.topic_id, self.partition, self.offset)


class Commit:
    """What one commit writes. Made by `GroupCommit.begin`."""

    __slots__ = (
        "_group",
        "before_sync",
        "blocks",
        "controls",
        "error",
        "files",
        "is_whole",
        "number",
        "replacements",
        "shares",
        "sync_journal",
        "sync_ns",
        "to_sync",
        "writes",
    )

    def __init__(self, group: GroupCommit, number: int) -> None:
        self._group = group
        self.number = number
        self.is_whole = False
        """Whether it is all or nothing, over all of its logs."""
        self.shares: list[PendingWrite] = []
        """What it takes of each log."""
        self.writes: list[PendingWrite] = []
        """Those of them that are written into segments, and not held."""
        self.controls: list[Control] = []
        self.blocks: list[Block] = []
        self.replacements: Sequence[Syncable] = ()
        """Small files that are replaced before anything else: what the journal then says may rest on them."""
        self.to_sync: list[Syncable | PendingWrite] = []
        """Segments that are synced because their records are not in the journal."""
        self.sync_journal = True
        self.files: list[JournalFile] = []
        """Files of the journal that earlier commits left unsynced."""
        self.sync_ns = 0
        """How long its syncs took."""
        self.before_sync: Step | None = None
        """Called when all of it is written, and only the sync of the journal is left: if that fails, nothing is ever
        written again. Must not raise."""
        self.error: DiskFailedError | None = None

    def run(self) -> None:
        """Any thread. Raises DiskFailedError: then nothing of this commit may be acknowledged, and the loop must call
        `GroupCommit.fail` instead of `finish`.
        """
        if self.error is not None:
            raise self.error
        step = "replace a file"
        try:
            for file in self.replacements:
                file.sync()
            if self.is_whole:
                step = "write the journal"
                self._write_journal()
                if self.sync_journal:
                    step = "sync the journal"
                    self._sync_journal()
            step = "write a segment"
            for write in self.writes:
                write.run()
            if self.to_sync:
                step = "sync a segment"
                self._sync_segments()
            if not self.is_whole:
                step = "write the journal"
                self._write_journal()
                if self.before_sync is not None:
                    self.before_sync()
                if self.sync_journal:
                    step = "sync the journal"
                    self._sync_journal()
        except OSError as error:
            self.error = DiskFailedError(f"Could not {step}: {error}")
            if step.startswith("sync") or error.errno not in REFUSALS:
                self._group.poison(self.error)
            raise self.error from error

    def _write_journal(self) -> None:
        for block in self.blocks:
            block.write()

    def _sync_segments(self) -> None:
        started_ns = perf_counter_ns()
        for target in self.to_sync:
            if isinstance(target, PendingWrite):
                for part in (*target.files(), *target.log.unsynced_names()):
                    part.sync()
            else:
                target.sync()
        self._note_sync(started_ns)

    def _sync_journal(self) -> None:
        started_ns = perf_counter_ns()
        for file in self.files:
            file.sync()
        if len(self.blocks) == 1:  # nearly always
            self.blocks[0].into.sync()
        else:
            for block, after in zip_longest(self.blocks, self.blocks[1:]):
                if after is None or after.into is not block.into:
                    block.into.sync()
        self._note_sync(started_ns)

    def _note_sync(self, started_ns: int) -> None:
        took_ns = perf_counter_ns() - started_ns
        self.sync_ns += took_ns
        self._group.sync_latency.record(took_ns / 1000)


class GroupCommit:
    """All logs of a node and their journal. Called in the event loop, save where it says otherwise."""

    def __init__(
        self,
        journal: Journal,
        *,
        durability: Durability = Durability.COMMIT,
        segment_sync_bytes_min: int = SEGMENT_SYNC_BYTES_MIN,
    ) -> None:
        self.journal = journal
        self.failure: DiskFailedError | None = None
        """Why nothing can be committed any more."""
        self.unsynced: dict[Log, None] = {}
        """Logs that the next checkpoint must look at."""
        self._unsynced_from = 0
        """They are those which this commit has changed, or a later one."""
        self.is_open = True
        """False while the journal still has to be replayed: a commit now would make what it holds void."""
        self.sync_latency = Histogram()
        """Of the syncs that commits wait for. Written by whoever runs the commit, and there is one at a time."""
        self.next_number = 1
        self.in_flight: Commit | None = None
        self.checkpoint: Checkpoint | None = None
        """The one that is under way."""
        self.left_over: list[tuple[Log | None, Syncable]] = []
        """What a checkpoint should have synced, and the disk had no room for."""
        self._durability = durability
        self.segment_sync_bytes_min = segment_sync_bytes_min
        self.held = Held()
        self._may_hold = True
        """Not after the disk has refused a write, until a checkpoint says that there is room."""
        self.dirty: dict[Log, None] = {}
        """Logs that have something pending, as `add` says; who appends for every request puts them here by itself."""
        self._controls: list[Control] = []
        self._replacements: list[Syncable] = []
        self._unsynced_files: dict[JournalFile, None] = {}
        self._when_quiet: list[tuple[Log, Step]] = []
        self._is_whole = False
        """Whether what is appended now must be committed all or nothing, over all logs."""

    @property
    def poisoned(self) -> bool:
        return self.failure is not None

    def poison(self, failure: DiskFailedError) -> None:
        """The disk has failed: nothing more is acknowledged until the node has been restarted. Any thread."""
        if self.failure is None:
            self.failure = failure

    # What to commit

    def add(self, log: Log) -> None:
        """`log` has something pending. Cheap, and no harm if it was said before."""
        self.dirty[log] = None

    @property
    def syncs_commits(self) -> bool:
        return self._durability is Durability.COMMIT

    @property
    def can_be_whole(self) -> bool:
        """Whether a commit can be all or nothing: not where only the page cache holds it."""
        return self._durability is not Durability.OS

    def keep_whole(self) -> None:
        """What is appended to any log until the next commit is in that commit as a whole, or lost as a whole.

        For records of one log that mean something only along with those of another.
        """
        self._is_whole = True

    def replace(self, files: Iterable[Syncable]) -> None:
        """Sync these, in this order, before the rest of the next commit. If that commit fails they are forgotten."""
        self._replacements += files

    def control(self, kind: Kind, log: Log, offset: int, apply: Step | None = None) -> None:
        """Journal what happens to `log`, with the next commit; when that is durable `apply` is called, in the loop.

        Nothing may be appended to the log between a TRUNCATE or RESTART and its `apply`, and nothing may wait for a
        commit before it: in the journal it would stand behind the cut, and be there again after a crash.
        """
        if kind in (Kind.TRUNCATE, Kind.RESTART):
            invariant(log not in self.dirty, "a log is cut when all that was appended to it is committed")
            if not self._is_journaled(log):
                kind = Kind.UNJOURNALED
        self._controls.append(Control(kind, log.topic_id, log.partition.partition, offset, log, apply))

    def remove(self, topic_id: TopicId, partition: int, log: Log | None) -> None:
        """The log is deleted: whatever was still to be done with it is not, and the next commit says so."""
        if log is not None:
            self.dirty.pop(log, None)
            self._controls = [control for control in self._controls if control.log is not log]
            self.unsynced.pop(log, None)
            self.held.forget(log)
            self.left_over = [(owner, target) for owner, target in self.left_over if owner is not log]
            if self.checkpoint is not None:
                self.checkpoint.forget(log)
        kind = Kind.UNJOURNALED if self._durability is Durability.OS else Kind.REMOVED
        self._controls.append(Control(kind, topic_id, partition, 0, None, None))

    def when_quiet(self, log: Log, action: Step) -> bool:
        """Do `action` when no thread is at the files of `log`: now (True), or as soon as that is so."""
        if self._is_busy(log):
            self._when_quiet.append((log, action))
            return False
        action()
        return True

    def _is_busy(self, log: Log) -> bool:
        if self.checkpoint is not None and self.checkpoint.is_syncing(log):
            return True
        return self.in_flight is not None and any(share.log is log for share in self.in_flight.shares)

    def look_for_quiet(self) -> None:
        """A commit or a part of a checkpoint has ended: do what waited for that."""
        if self._when_quiet:
            waiting, self._when_quiet = self._when_quiet, []
            for log, action in waiting:
                self.when_quiet(log, action)

    # Committing

    def begin(self, *, hold: bool = False, writes_later: bool = True) -> Commit | None:
        """Everything that waits to be committed; None if nothing does.

        `hold`: small shares need not be written into their segments yet. `writes_later`: what has become much is
        written by `write_held` afterwards; otherwise along with the next share of its log, by whoever runs that commit.
        """
        invariant(self.in_flight is None, "one commit is in flight at a time")
        invariant(self.is_open, "nothing is committed before recovery is through")
        if not self.dirty and not self._controls and not self._replacements:
            return None
        commit = self.in_flight = Commit(self, self.next_number)
        self.next_number += 1
        if self.failure is not None:
            commit.error = self.failure
            return commit
        dirty, self.dirty = self.dirty, {}
        commit.is_whole, self._is_whole = self._is_whole, False
        commit.controls, self._controls = self._controls, []
        if self._replacements:
            commit.replacements, self._replacements = self._replacements, []
        hold_bytes_max, held_bytes_max = self._bounds(hold, writes_later)
        journals_all = self._durability is not Durability.OS
        shares, writes = commit.shares, commit.writes
        for log in dirty:
            share = log.take_pending(hold_bytes_max if journals_all or self._is_journaled(log) else 0, held_bytes_max)
            if share is not None:
                shares.append(share)
                if share.runs:
                    writes.append(share)
        try:
            self._plan(commit)
        except OSError as error:  # there is no room for another journal file
            commit.error = DiskFailedError(f"Could not make the journal larger: {error}")
        return commit

    def _bounds(self, hold: bool, writes_later: bool) -> tuple[int, int]:
        """Of a share that is held, and of what its log may hold already."""
        if not hold or not self._may_hold or (not writes_later and self.held.is_full):
            return 0, 0
        share_bytes_max = min(SHARE_BYTES_MAX, self.segment_sync_bytes_min - 1)
        return share_bytes_max, NO_BOUND if writes_later else self.held.log_bytes_max

    def finish(self, commit: Commit) -> None:
        """`commit.run` has returned: readers find the records now, and they may be acknowledged."""
        self.in_flight = None
        self._note_blocks(commit)
        number, unsynced_from = commit.number, self._unsynced_from
        for share in commit.shares:
            log = share.log
            if share.runs:
                share.finish()
                log.mark_durable(share.end_offset)
                self.held.forget(log)
            else:
                log.finish_held(share)
            if log.last_commit < unsynced_from:
                self.unsynced[log] = None
            log.last_commit = number
        self.held.add(commit.shares)
        for control in commit.controls:
            self._apply(control, number)
        self.look_for_quiet()

    def write_held(self, *, logs_max: int = NO_BOUND) -> None:
        """What has become too much to be held, of so many logs: after a commit, when those who waited for it are
        answered."""
        try:
            self.held.write(logs_max)
        except OSError as error:
            self._may_hold = False
            if error.errno not in REFUSALS:
                self.poison(DiskFailedError(f"Could not write a segment: {error}"))

    def checkpointed(self, upto_number: int) -> None:
        """A checkpoint of all that was changed before this commit is complete: the disk takes what it is given."""
        self._unsynced_from = upto_number
        self.unsynced = {log: None for log in self.unsynced if log.last_commit >= upto_number}
        self._may_hold = True

    def fail(self, commit: Commit) -> list[Log]:
        """`commit.run` has raised: its logs are as they were before it, without what was appended since. Returns them.

        If what was appended since must be whole, then all of that is gone too, for it may rest on what is lost.
        """
        self.in_flight = None
        self._controls[:0] = commit.controls
        if commit.blocks and self.failure is None:
            self.journal.rewind(commit.blocks[0])
        logs = [share.log for share in commit.shares]
        if self._is_whole:
            logs += [log for log in self.dirty if log not in logs]
            self._is_whole = False
        for log in logs:
            self.dirty.pop(log, None)
            try:
                log.reload(log.durable_offset)
            except (OSError, DiskFailedError) as error:
                self.poison(DiskFailedError(f"Could not read {log.partition} again: {error}"))
        self.look_for_quiet()
        return logs

    def commit(self, *, hold: bool = False) -> None:
        """Begin, run and finish in one. Raises DiskFailedError."""
        commit = self.begin(hold=hold)
        if commit is None:
            return
        try:
            commit.run()
        except DiskFailedError:
            self.fail(commit)
            raise
        self.finish(commit)
        self.write_held()

    @property
    def has_unsynced_files(self) -> bool:
        return bool(self._unsynced_files)

    def take_unsynced_files(self) -> list[JournalFile]:
        """The files of the journal that hold blocks which no commit has synced. Whoever takes them syncs them."""
        files, self._unsynced_files = list(self._unsynced_files), {}
        return files

    # Planning

    def _plan(self, commit: Commit) -> None:
        """Give everything its place in the journal: controls first, since they are about what was there before."""
        journals_all = self._durability is not Durability.OS
        payload: list[Bytes] = [control.entry() for control in commit.controls]
        size, count = ENTRY_BYTES * len(payload), len(payload)
        if self._durability is not Durability.COMMIT:
            self._plan_sync(commit)
        sync_bytes_min = self.segment_sync_bytes_min
        for share in commit.shares:
            log, size_bytes = share.log, share.size_bytes
            if size_bytes >= sync_bytes_min and not commit.is_whole and self._may_sync_segment(log):
                commit.to_sync += (*_older_records(log, share), share)
                payload.append(control_entry(Kind.SYNCED, log.topic_id, log.partition.partition, share.end_offset))
                size += ENTRY_BYTES
            elif journals_all or self._is_journaled(log):
                if size + size_bytes > BLOCK_BYTES_MAX and count and not commit.is_whole:
                    commit.blocks.append(self.journal.block(payload, size, count))
                    payload, size, count = [], 0, 0
                buffers = share.buffers
                if len(buffers) == 2:
                    append_single(payload, log.journal_key, buffers, size_bytes)
                else:
                    payload.append(append_entry(log.journal_key, buffers, size_bytes))
                    if len(buffers) >= JOIN_PIECES_MIN and size_bytes < JOIN_PIECE_BYTES_MAX * len(buffers):
                        buffers = _join(share)
                    payload += buffers
                size += ENTRY_BYTES + size_bytes
            else:
                continue
            count += 1
        if count:
            if len(payload) >= JOIN_PAYLOAD_MIN and size < JOIN_PIECE_BYTES_MAX * len(payload):
                payload = [b"".join(payload)]
            commit.blocks.append(self.journal.block(payload, size, count))

    def _is_journaled(self, log: Log) -> bool:
        return self._durability is not Durability.OS or log.topic_id == METADATA_TOPIC_ID

    def _may_sync_segment(self, log: Log) -> bool:
        """Not while a sync of its older segments is still to come: the journal must keep what is in those. Nor while
        more than records would have to be synced.
        """
        return (
            self._durability is Durability.COMMIT
            and self.checkpoint is None
            and not self.left_over
            and not log.has_debts
        )

    def _plan_sync(self, commit: Commit) -> None:
        """Where commits are not synced, what is no client's data is."""
        metadata = any(share.log.topic_id == METADATA_TOPIC_ID for share in commit.shares)
        commit.sync_journal = metadata or bool(commit.controls)
        if commit.sync_journal:
            commit.files = self.take_unsynced_files()

    # Afterwards

    def _note_blocks(self, commit: Commit) -> None:
        if not commit.blocks:
            return
        if commit.sync_journal:
            self.journal.mark_synced(commit.blocks[-1].sequence)
        else:
            self._unsynced_files.update(dict.fromkeys(block.into for block in commit.blocks))

    def _apply(self, control: Control, number: int) -> None:
        log = control.log
        if log is not None:
            self.unsynced[log] = None
            log.last_commit = number
            if self.checkpoint is not None and control.kind is not Kind.START_OFFSET:
                self.checkpoint.cut(log, control.offset)
        if control.apply is not None:
            try:
                control.apply()
            except OSError as error:
                self.poison(DiskFailedError(f"Could not do what the journal says was done: {error}"))


def _join(write: PendingWrite) -> list[bytes]:
    """The batches in one piece, for the journal and the segment."""
    pieces = [b"".join(write.buffers)]
    if len(write.runs) == 1 and write.runs[0].buffers is write.buffers:
        write.runs[0].buffers = pieces
    write.buffers = pieces
    return pieces


def _older_records(log: Log, write: PendingWrite) -> Iterable[Syncable]:
    """Segments that hold unsynced records and get none from this write."""
    written = [run.segment for run in write.runs]
    for segment in reversed(log.segments):
        if segment.unsynced and segment not in written:
            yield FileSync(segment.file())
        if segment.base_offset <= log.recovery_point:
            return
