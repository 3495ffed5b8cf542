"""What nodes say to each other. Plain values: `wire` has their bytes.

Every message may be lost, delayed, doubled or overtaken by a later one. One that belongs to an older term than its
receiver's is answered only where that helps the sender to learn the newer term.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.raft.entry import Entry, EntryId, Snapshot
from ottla.values import value


@value
class Message:
    sender: int
    term: int
    """The sender's term, but for pre-votes: they are for the term after the candidate's."""


@value
class VoteRequest(Message):
    """A candidate asks for a vote (paper, 5.2), or whether it would get one (`pre_vote`; dissertation, 9.6)."""

    last: EntryId
    pre_vote: bool = False
    by_transfer: bool = False
    """The leader asked for this election, so having heard from it lately is no reason to refuse."""


@value
class VoteReply(Message):
    granted: bool
    pre_vote: bool = False


@value
class Append(Message):
    """The leader sends entries that follow `previous`, and says how far the log is committed (paper, 5.3)."""

    previous: EntryId
    commit: int
    entries: Sequence[Entry] = ()


@value
class AppendReply(Message):
    """The sender's disk holds the leader's log up to `match_index`."""

    match_index: int


@value
class AppendRejected(Message):
    """There is no such entry here as `previous`. The two logs may agree at `hint` or before it, and nowhere after."""

    rejected_index: int
    hint: EntryId


@value
class Heartbeat(Message):
    """The leader is there. A reply to `round` proves that it still was after the round had begun."""

    commit: EntryId
    """The last committed entry. Who has it has all before it too, and knows now that they are committed."""
    match_index: int
    """What the receiver has acknowledged as a voter: if it lacks that, it has lost its disk. 0 to others."""
    round: int


@value
class HeartbeatReply(Message):
    round: int


@value
class InstallSnapshot(Message):
    """The receiver needs entries that the leader no longer has, and gets a snapshot instead (paper, 7).

    The state itself travels beside this message: the runtime gives the message to `step` when it has all of it.
    """

    snapshot: Snapshot


@value
class TimeoutNow(Message):
    """The leader wants the receiver to take over, at once (dissertation, 3.10)."""


@value
class Attach(Message):
    """A node that is not a voter wants to follow the log. Whoever is the leader sends it what is committed."""


@value
class ReadRequest(Message):
    """A follower asks how far it must have applied the log to serve a read (dissertation, 6.4)."""

    read_id: int


@value
class ReadReply(Message):
    read_id: int
    index: int


PromisesNothing = Append | Heartbeat | HeartbeatReply | ReadRequest | ReadReply
"""Once the sender's term is on its disk, these are true whatever else is not: a leader counts its own entries as
written only when they are (dissertation, 10.2.1), and none of the others speaks of the log. So a slow disk does not
silence a node, and entries are written by the leader and by its followers at the same time."""


@value
class Outgoing:
    """A message and the node that it is for."""

    to: int
    message: Message
