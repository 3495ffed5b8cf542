"""All that a node keeps of the metadata quorum: snapshots, the log, and the hard state.

    quorum/<end offset>-<epoch>.checkpoint   see `metadata_snapshot`; the newest counts, the one before is kept too
    quorum/quorum-state                      see `quorum_state`
    __cluster_metadata-0/                    the log; it goes on where the oldest of the snapshots ends, or later

A crash may come between a new snapshot and what follows from it. A snapshot that came from another node takes the place
of the log: a log that ends before it, or has another epoch where it ends, is dropped when the node starts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from ottla.errors import DiskFailedError
from ottla.protocol.records import iter_batches
from ottla.raft.entry import ORIGIN, Entry, HardState, Snapshot
from ottla.raft.voters import NO_VOTERS, Voter, VoterSet
from ottla.runtime.metadata_snapshot import (
    SnapshotId,
    StoredSnapshot,
    find_snapshots,
    read_description,
    snapshot_batches,
)
from ottla.runtime.quorum_log import QuorumLog
from ottla.runtime.quorum_state import DIRECTORY, hard_state_files, make_directory, read_hard_state
from ottla.storage.names import TEMPORARY

if TYPE_CHECKING:
    from ottla.ports import Disk
    from ottla.storage.log import Log
    from ottla.storage.log_manager import LogManager

lines = logging.getLogger(__name__)

NO_SNAPSHOT = SnapshotId(0, 0)


class QuorumStore:
    def __init__(self, disk: Disk, logs: LogManager, log: Log, *, founders: VoterSet | None, own: Voter) -> None:
        """`founders` are the voters of a cluster that is founded here and now: said once, when there is nothing yet.

        A log that was written before there was a quorum is that of this node alone.
        """
        self._disk = disk
        self._logs = logs
        self._log = log
        self._cuts_pending = 0
        make_directory(disk)
        self.snapshots = [read_description(disk, found) for found in find_snapshots(disk)]
        if not self.snapshots and founders is not None and log.end_offset == 0:
            self._found(founders)
        if not self.snapshots and _is_older_than_the_quorum(log):
            self._found(VoterSet((own,)))
        self._drop_log_that_the_snapshot_replaces()
        self.log = self._open()

    def _found(self, founders: VoterSet) -> None:
        """Before anything else: what a founder promises later, it promises to these."""
        snapshot = Snapshot(voters=founders)
        self.put(NO_SNAPSHOT, snapshot_batches(snapshot, ()))
        self.snapshots = [StoredSnapshot(snapshot_id=NO_SNAPSHOT, snapshot=snapshot)]

    @property
    def newest(self) -> StoredSnapshot:
        if self.snapshots:
            return self.snapshots[-1]
        return StoredSnapshot(snapshot_id=NO_SNAPSHOT, snapshot=Snapshot(voters=NO_VOTERS))

    def _drop_log_that_the_snapshot_replaces(self) -> None:
        log, newest = self._log, self.newest
        end_offset = newest.snapshot_id.end_offset
        if log.start_offset <= end_offset <= log.end_offset and _epoch_before(log, end_offset) in (
            None,
            newest.snapshot_id.epoch,
        ):
            return
        lines.warning("the metadata log is replaced by a newer snapshot, %s", newest.snapshot_id.path)
        log.truncate_fully_and_start_at(end_offset)
        log.sync()

    def _open(self) -> QuorumLog:
        """Entries are kept from the oldest snapshot on that the log reaches back to."""
        kept = next((each for each in self.snapshots if each.snapshot_id.end_offset >= self._log.start_offset), None)
        base, base_offset = (ORIGIN, 0) if kept is None else (kept.snapshot.last, kept.snapshot_id.end_offset)
        return QuorumLog(
            self._log,
            snapshot=self.newest.snapshot,
            snapshot_end=self.newest.snapshot_id.end_offset,
            base=base,
            base_offset=base_offset,
        )

    def reopen(self) -> None:
        """The disk has refused something: stand where it stands.

        What was appended meanwhile, for a commit that would still come, is refused as well, and goes.
        """
        if self._log.end_offset > self._log.durable_offset:
            try:
                self._log.reload(self._log.durable_offset)
            except OSError as error:
                failure = DiskFailedError(f"Could not read the metadata log again: {error}")
                self._logs.group_commit.poison(failure)
                raise failure from error
        self.log = self._open()

    # Hard state

    def hard_state(self) -> HardState:
        """A node never voted in a term that it only knows of from a snapshot, or from a log without a quorum."""
        found = read_hard_state(self._disk) or HardState()
        known = max(self._log.leader_epochs.latest, self.newest.snapshot_id.epoch)
        return found if found.term >= known else HardState(term=known)

    def write_hard_state(self, hard_state: HardState) -> None:
        """With the next commit."""
        self._logs.group_commit.replace(hard_state_files(self._disk, hard_state))

    # Entries

    @property
    def is_being_cut(self) -> bool:
        """A commit that is still to come cuts the log: nothing may be appended before."""
        return self._cuts_pending > 0

    def append(self, entries: Sequence[Entry], *, now_ms: int) -> None:
        """With the next commit. BrokerError if there is no room."""
        if entries:
            self._logs.group_commit.add(self._log)
            self.log.append(entries, now_ms=now_ms)

    def cut(self, index: int, then: Callable[[], None]) -> None:
        """Entries from `index` on go, with the next commit; `then` is called when they are gone."""
        self._cuts_pending += 1

        def done() -> None:
            self._cuts_pending -= 1
            self.log.cut(index)
            then()

        self._logs.truncate(self._log, self.log.start_offset(index), done)

    # Snapshots

    def install(self, snapshot: Snapshot, then: Callable[[], None]) -> None:
        """A snapshot that the leader has sent, and that has been put on disk, replaces the log with the next commit."""
        (found,) = (each for each in find_snapshots(self._disk) if self._is_of(each, snapshot))
        self._cuts_pending += 1

        def done() -> None:
            self._cuts_pending -= 1
            self._forget_before(found)
            self.snapshots = [StoredSnapshot(snapshot_id=found, snapshot=snapshot)]
            self.log.begin_anew(snapshot)
            then()

        self._logs.restart(self._log, found.end_offset, done)

    def took(self, stored: StoredSnapshot, *, now_ms: int) -> bool:
        """A snapshot of this node's own has been `put`. Whether it is of any use: a newer one may have come."""
        before = self.newest
        if stored.snapshot_id <= before.snapshot_id:
            self._forget_before(before.snapshot_id)
            return False
        self._forget_before(before.snapshot_id)
        self._logs.delete_records(self._log, before.snapshot_id.end_offset)
        self._log.roll(now_ms)
        self._logs.retain(self._log, high_watermark=self._log.start_offset, now_ms=now_ms)
        self.snapshots = [*self.snapshots[-1:], stored]
        self.log.compact(before.snapshot.last, stored.snapshot)
        return True

    def _is_of(self, snapshot_id: SnapshotId, snapshot: Snapshot) -> bool:
        is_possible = snapshot_id.epoch == snapshot.last.term
        return is_possible and read_description(self._disk, snapshot_id).snapshot.last == snapshot.last

    def _forget_before(self, newest: SnapshotId) -> None:
        for old in find_snapshots(self._disk):
            if old < newest:
                self._disk.remove(old.path)

    def put(self, snapshot_id: SnapshotId, batches: Iterable[bytes]) -> None:
        """Write a snapshot; it is on disk when this returns. Any thread."""
        file = self._disk.open(snapshot_id.path + TEMPORARY, create=True)
        file.truncate(0)
        position = 0
        for batch in batches:
            position += file.pwritev([batch], position)
        file.sync()
        file.close()
        self._disk.rename(snapshot_id.path + TEMPORARY, snapshot_id.path)
        self._disk.sync_directory(DIRECTORY)


def _is_older_than_the_quorum(log: Log) -> bool:
    """It begins with records: since there are voters, a log begins with their names."""
    if log.start_offset >= log.end_offset:
        return False
    data = log.read(log.start_offset, 1, upto_offset=log.end_offset, min_one_batch=True)
    return not next(iter_batches(data)).is_control


def _epoch_before(log: Log, offset: int) -> int | None:
    """The epoch of the record before `offset`; None if the log has none there."""
    if offset <= log.start_offset:
        return None
    data = log.read(offset - 1, 1, upto_offset=log.end_offset, min_one_batch=True)
    return next(iter_batches(data)).leader_epoch
