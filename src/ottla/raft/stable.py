"""The port to the log on disk: what a node may read of what it has asked to be written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ottla.raft.entry import Entry, EntryId, Snapshot


class StableLog(Protocol):
    """The part of the log that is on disk. The runtime changes it, as a `Ready` says; a node only reads.

        snapshot.last.index
               │
        base   ▼                      last_index
          │ [entry] [entry] [entry] [entry]
          └ before the first entry that can be read: only its index and term are known

    Entries may be kept from before the snapshot's end, for followers that are a little behind.
    """

    @property
    def snapshot(self) -> Snapshot:
        """The newest one. A log that never had one has `Snapshot(voters=...)`: nothing, and the first voters."""

    @property
    def base(self) -> EntryId:
        """Never after the snapshot's last entry."""

    @property
    def last_index(self) -> int: ...

    def read(self, first: int, last: int, bytes_max: int) -> Sequence[Entry]:
        """Entries from `first` to at most `last`, as many as fit in `bytes_max`, but at least one."""
