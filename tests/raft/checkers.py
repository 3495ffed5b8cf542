"""What must be true of every history, whatever the faults. Each checker watches for one promise of Raft (figure 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.raft.entry import Entry, EntryId
from tests.raft.host import Host, State


class ViolationError(AssertionError):
    """A promise was broken."""


@dataclass
class ElectionSafety:
    """At most one leader in a term."""

    leaders: dict[int, int] = field(default_factory=dict)

    def saw_leader(self, node_id: int, term: int) -> bool:
        """Whether the term is news."""
        is_new = term not in self.leaders
        if self.leaders.setdefault(term, node_id) != node_id:
            raise ViolationError(f"term {term} has two leaders: {self.leaders[term]} and {node_id}")
        return is_new


@dataclass
class LogMatching:
    """Two logs with the same entry at an index are the same up to there.

    An index and a term name one entry with one predecessor, wherever it is seen: by induction, so is all before it.
    """

    seen: dict[EntryId, tuple[EntryId, int, bytes]] = field(default_factory=dict)

    def wrote(self, previous: EntryId, entries: Sequence[Entry]) -> None:
        for entry in entries:
            at = EntryId(entry.index, entry.term)
            content = (previous, entry.kind, entry.data)
            if self.seen.setdefault(at, content) != content:
                raise ViolationError(f"{at} is {self.seen[at]} in one log and {content} in another")
            previous = at


class Chosen(NamedTuple):
    at: EntryId
    data: bytes
    term_seen: int
    """The term of the node that first applied it: the entry was committed in this term or before."""


@dataclass
class CommittedForever:
    """State machine safety: no two nodes apply different entries at an index. Leader completeness: every later leader
    has them all."""

    chosen: dict[int, Chosen] = field(default_factory=dict)

    def applied(self, host: Host, entry: Entry) -> None:
        at = EntryId(entry.index, entry.term)
        chosen = self.chosen.setdefault(entry.index, Chosen(at, entry.data, host.node.term))
        if (chosen.at, chosen.data) != (at, entry.data):
            raise ViolationError(f"node {host.node_id} applied {entry}, another one {chosen}")

    def elected(self, host: Host, term: int) -> None:
        log = host.node._core.log
        for chosen in self.chosen.values():
            if chosen.term_seen < term and chosen.at.index > log.base.index and not log.matches(chosen.at):
                raise ViolationError(f"node {host.node_id} leads term {term} without {chosen}: {log!r}")


@dataclass
class SameSnapshots:
    """The state after an entry is the same everywhere."""

    states: dict[EntryId, State] = field(default_factory=dict)

    def took(self, at: EntryId, state: State) -> None:
        if self.states.setdefault(at, state) != state:
            raise ViolationError(f"two snapshots of {at} differ")


@dataclass
class LinearizableReads:
    """A read sees every write that was acknowledged, and all that any other read saw, before it began.

    There is one log, so what a read sees is an index, and that is all that need be compared.
    """

    visible: int = 0

    def began(self) -> int:
        """What the read that begins now must see."""
        return self.visible

    def acknowledged(self, index: int) -> None:
        self.visible = max(self.visible, index)

    def ended(self, must_see: int, saw: int) -> None:
        if saw < must_see:
            raise ViolationError(f"a read saw {saw}, and {must_see} was there before it began")
        self.visible = max(self.visible, saw)
