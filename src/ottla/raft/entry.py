"""What a Raft log is made of, and what a node must not forget."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from ottla.raft.voters import NO_VOTERS, VoterSet
from ottla.values import value

ENTRY_OVERHEAD_BYTES = 24
"""What an entry counts for besides its data, so that empty ones are not free."""


class EntryKind(IntEnum):
    DATA = 0
    """Bytes of the state machine: nobody here looks inside."""
    NOOP = 1
    """The first entry of a leader's term: once it is committed, so is everything before it (paper, 5.4.2 and 8)."""
    VOTERS = 2
    """A new set of voters (`VoterSet.encode`); as the first entry of a new cluster, those that it was founded by."""


@dataclass(frozen=True, slots=True)
class EntryId:
    """An entry's place and the term of the leader that made it: together they name one entry in the whole cluster."""

    index: int
    term: int


ORIGIN = EntryId(0, 0)
"""What stands before the first entry of every log."""


@value
class Entry:
    """One entry. Indexes count from 1."""

    index: int
    term: int
    kind: EntryKind = EntryKind.DATA
    data: bytes = b""

    @property
    def size_bytes(self) -> int:
        return ENTRY_OVERHEAD_BYTES + len(self.data)


@value
class HardState:
    """What must survive a crash besides the log, or a node could vote twice in a term.

    The voters are not in here: they are entries of the log, and part of a snapshot. Two sources could disagree.
    """

    term: int = 0
    vote: int | None = None


@value
class Snapshot:
    """Which state a snapshot holds: everything up to `last`. The state itself is the runtime's to keep and to carry."""

    last: EntryId = ORIGIN
    voters: VoterSet = NO_VOTERS
