"""The log as a node sees it: a snapshot, entries on disk, entries on their way there, and how much is committed.

    base ≤ applied ≤ commit ≤ last_index,   stable_index ≤ last_index

It checks at every step what Raft promises: what is committed is never cut or changed, and terms never fall.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.errors import invariant
from ottla.raft.entry import Entry, EntryId, EntryKind, Snapshot
from ottla.raft.stable import StableLog
from ottla.raft.terms import Terms
from ottla.raft.unstable import Unstable
from ottla.raft.voters import VoterHistory, VoterSet

SCAN_BYTES = 1 << 20


class RaftLog:
    __slots__ = ("_stable", "_terms", "_unstable", "_voters", "applied", "base", "commit", "snapshot")

    def __init__(self, stable: StableLog) -> None:
        self._stable = stable
        self.snapshot = stable.snapshot
        self.base = stable.base
        """The entry before the first that can be sent: only its term is known."""
        self.commit = self.snapshot.last.index
        self.applied = self.commit
        """What has been handed out as committed; a restarted node begins again at its snapshot."""
        self._terms = Terms(self.base)
        self._voters = VoterHistory(self.commit, self.snapshot.voters)
        self._unstable = Unstable(stable.last_index + 1)
        self._scan()

    def _scan(self) -> None:
        """Terms and voters of what is on disk."""
        invariant(
            self.base.index <= self.snapshot.last.index <= self.last_index, "the log has a hole after its snapshot"
        )
        at = self.base.index + 1
        while at <= self.last_index:
            for entry in self._stable.read(at, self.last_index, SCAN_BYTES):
                invariant(entry.index == at, f"the log on disk has entry {entry.index} at {at}")
                self._note(entry)
                at += 1
        invariant(self.matches(self.snapshot.last), f"the log does not continue its snapshot of {self.snapshot.last}")

    # What is there

    @property
    def last_index(self) -> int:
        return self._unstable.end - 1

    @property
    def last(self) -> EntryId:
        return EntryId(self.last_index, self.term(self.last_index))

    @property
    def stable_index(self) -> int:
        """The end of what is on disk."""
        return self._unstable.first - 1 if self._unstable.snapshot is None else 0

    @property
    def voters(self) -> VoterSet:
        """The newest set in the log, committed or not."""
        return self._voters.newest

    @property
    def names_voters(self) -> bool:
        """The log or its snapshot does, and not only what the first nodes were started with."""
        return self._voters.newest_index > 0

    @property
    def has_voters_pending(self) -> bool:
        """A change of the voters is not committed yet."""
        return self._voters.newest_index > self.commit

    def may_be_voter(self, node_id: int) -> bool:
        """By the newest set, or by one before it that is not known to be replaced."""
        return any(node_id in voters for voters in self._voters.since(self.commit))

    def term(self, index: int) -> int:
        invariant(self.base.index <= index <= self.last_index, f"the term of {index} is asked for: {self!r}")
        return self._terms.at(index)

    def matches(self, at: EntryId) -> bool:
        return self.base.index <= at.index <= self.last_index and self._terms.at(at.index) == at.term

    def is_up_to_date(self, candidate: EntryId) -> bool:
        """Whether a log that ends with `candidate` lacks nothing that this one could know to be committed (5.4.1)."""
        last = self.last
        return (candidate.term, candidate.index) >= (last.term, last.index)

    def last_agreeable(self, at: EntryId) -> EntryId:
        """The last entry of this log at which it may agree with one that has `at`."""
        if at.index < self.base.index:
            return at
        return self._terms.last_not_above(min(at.index, self.last_index), at.term)

    def read(self, first: int, last: int, bytes_max: int) -> Sequence[Entry]:
        """Entries from `first` to at most `last` that fit in `bytes_max`, but at least one; none of an empty range."""
        if first > last:
            return ()
        invariant(self.base.index < first <= last <= self.last_index, f"{first} to {last} is asked for: {self!r}")
        boundary = self._unstable.first
        if first >= boundary:
            return _fitting(self._unstable.from_index(first, last), bytes_max)
        entries = self._stable.read(first, min(last, boundary - 1), bytes_max)
        left = bytes_max - sum(entry.size_bytes for entry in entries)
        if entries[-1].index + 1 < boundary or last < boundary or left <= 0:
            return entries
        more = self._unstable.from_index(boundary, last)
        return [*entries, *_fitting(more, left)] if more[0].size_bytes <= left else entries

    # Growing

    def append(self, entries: Sequence[Entry]) -> None:
        """A leader only ever adds to its log (5.3)."""
        self._unstable.append(entries)
        for entry in entries:
            self._note(entry)

    def merge(self, entries: Sequence[Entry]) -> None:
        """Entries of the leader, of which the first follows one that is here. What disagrees with them goes.

        Entries that are here already stay, and so does what follows them: the message may be an old one (5.3).
        """
        for place, entry in enumerate(entries):
            if not self.matches(EntryId(entry.index, entry.term)):
                if entry.index <= self.last_index:
                    self._cut(entry.index)
                self.append(entries[place:])
                return

    def _cut(self, index: int) -> None:
        invariant(index > self.commit, f"entry {index} would be replaced, and {self.commit} are committed")
        self._unstable.cut(index)
        self._terms.truncate(index)
        self._voters.truncate(index)

    def _note(self, entry: Entry) -> None:
        self._terms.add(entry.index, entry.term)
        if entry.kind is EntryKind.VOTERS and entry.index > self._voters.newest_index:
            self._voters.add(entry.index, VoterSet.decode(entry.data))

    # Committing and applying

    def commit_to(self, index: int) -> None:
        """Never falls: what a late message says about an earlier time is still true, and no news."""
        if index > self.commit:
            invariant(index <= self.last_index, f"{index} is committed, and not here: {self!r}")
            self.commit = index

    def unapplied(self, bytes_max: int) -> Sequence[Entry]:
        return self.read(self.applied + 1, self.commit, bytes_max)

    def mark_applied(self, index: int) -> None:
        invariant(index <= self.commit, f"{index} is applied, and only {self.commit} are committed")
        self.applied = max(self.applied, index)

    # Writing

    def offer(self) -> tuple[Snapshot | None, Sequence[Entry]]:
        """What must be written now. `mark_written` says that it has been."""
        return self._unstable.offer()

    def mark_written(self) -> None:
        self._unstable.written()

    # Snapshots

    def snapshot_at(self, index: int) -> Snapshot | None:
        """The description of a snapshot of the state after `index`; None if a newer one came from the leader."""
        if self._unstable.snapshot is not None:
            return None
        invariant(self.base.index <= index <= self.applied, f"a snapshot of {index} is asked for: {self!r}")
        return Snapshot(last=EntryId(index, self.term(index)), voters=self._voters.at(index))

    def restore(self, snapshot: Snapshot) -> None:
        """Begin anew after `snapshot`, which holds more than is committed here."""
        invariant(snapshot.last.index > self.commit, f"a snapshot of {snapshot.last} would undo: {self!r}")
        self._unstable.replace(snapshot)
        self.snapshot, self.base = snapshot, snapshot.last
        self.commit = self.applied = snapshot.last.index
        self._terms = Terms(snapshot.last)
        self._voters = VoterHistory(snapshot.last.index, snapshot.voters)

    def compacted(self) -> None:
        """There is a newer snapshot on disk, and perhaps fewer entries."""
        if self._unstable.snapshot is not None:
            return  # one that came from the leader is about to replace what was compacted
        snapshot, base = self._stable.snapshot, self._stable.base
        invariant(base.index <= snapshot.last.index <= self.applied, f"compacted to {base}, {snapshot.last}: {self!r}")
        invariant(self.matches(base) and self.matches(snapshot.last), f"a snapshot of another log: {snapshot.last}")
        self.snapshot, self.base = snapshot, base
        self._terms.forget_before(base.index)
        self._voters.forget_before(base.index)

    def __repr__(self) -> str:
        return (
            f"log of {self.base.index + 1} to {self.last_index}, on disk up to {self.stable_index}, "
            f"committed up to {self.commit}, applied up to {self.applied}"
        )


def _fitting(entries: Sequence[Entry], bytes_max: int) -> Sequence[Entry]:
    """As many of `entries` as fit, but at least one."""
    total = 0
    for place, entry in enumerate(entries):
        total += entry.size_bytes
        if total > bytes_max and place:
            return entries[:place]
    return entries
