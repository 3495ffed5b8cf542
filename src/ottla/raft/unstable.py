"""The end of the log that is not known to be on disk.

What is here is offered to the runtime in a `Ready`; when that has been carried out, what was offered is on disk and
leaves. Meanwhile a new leader may have replaced some of it: then only what was offered and is still the same counts as
written, which is why the number of offered entries shrinks with every cut.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.errors import invariant
from ottla.raft.entry import Entry, Snapshot


class Unstable:
    __slots__ = ("_offered", "_offered_snapshot", "entries", "first", "snapshot")

    def __init__(self, first: int) -> None:
        self.first = first
        """The index of the first entry that is not on disk; one after the end if all are."""
        self.entries: list[Entry] = []
        self.snapshot: Snapshot | None = None
        """Takes the place of everything on disk before `entries` may be written."""
        self._offered = 0
        self._offered_snapshot: Snapshot | None = None

    @property
    def end(self) -> int:
        return self.first + len(self.entries)

    def append(self, entries: Sequence[Entry]) -> None:
        invariant(entries[0].index == self.end, f"entry {entries[0].index} is appended at {self.end}")
        self.entries += entries

    def cut(self, index: int) -> None:
        """Entries from `index` on are void, on disk or not: others will be written in their place."""
        keep = max(0, index - self.first)
        del self.entries[keep:]
        self._offered = min(self._offered, keep)
        self.first = min(self.first, index)

    def replace(self, snapshot: Snapshot) -> None:
        """A snapshot takes the place of the whole log."""
        self.first = snapshot.last.index + 1
        self.entries = []
        self._offered = 0
        self.snapshot = snapshot

    def offer(self) -> tuple[Snapshot | None, Sequence[Entry]]:
        self._offered = len(self.entries)
        self._offered_snapshot = self.snapshot
        return self.snapshot, tuple(self.entries)

    def written(self) -> None:
        """What was offered is on disk."""
        if self._offered_snapshot is not None and self.snapshot is self._offered_snapshot:
            self.snapshot = None
        self._offered_snapshot = None
        del self.entries[: self._offered]
        self.first += self._offered
        self._offered = 0

    def from_index(self, first: int, last: int) -> Sequence[Entry]:
        return self.entries[first - self.first : last + 1 - self.first]
