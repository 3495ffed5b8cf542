"""What a node hands to its shell."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from ottla.raft.entry import Entry, HardState, Snapshot
from ottla.raft.messages import Outgoing
from ottla.values import value


class RoleName(Enum):
    FOLLOWER = "follower"
    PRE_CANDIDATE = "pre-candidate"
    CANDIDATE = "candidate"
    LEADER = "leader"


@value
class Leadership:
    """Who leads, as far as this node knows, and what this node is."""

    term: int
    leader_id: int | None
    role: RoleName
    is_voter: bool


@value
class ReadResult:
    """A read that was asked for may be served from the state after `index`, once that is applied."""

    read_id: int
    index: int | None
    """None: leadership was lost before it could be confirmed. Ask again."""


@value
class Ready:
    """What must happen next, in this order. Then `RaftNode.advance` is told."""

    leadership: Leadership | None
    """0. It changed: a node that no longer leads stops answering as the leader, before anything else."""
    hard_state: HardState | None
    """1. On disk before anything below."""
    snapshot: Snapshot | None
    """2. Takes the place of the whole log and of the whole state, on disk."""
    entries: Sequence[Entry]
    """3. Appended and synced. What is on disk from the first one's index on is removed before."""
    messages: Sequence[Outgoing]
    """4. Sent only after 1 to 3: a vote or an acknowledgement must survive a crash."""
    committed: Sequence[Entry]
    """5. Applied one after the other, after 1 to 3, in any order with 4. Each comes once, without gaps."""
    reads: Sequence[ReadResult]
    """6. Served after 5, when the state has reached their index."""
