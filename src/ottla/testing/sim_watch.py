"""Looks over the shoulder of every Raft node in a simulation: who leads in which term, and what each one applies.

Clients see little of the quorum, so its own promises are checked where they are made: at the door of the core.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from ottla.raft.node import RaftNode
from ottla.raft.ready import Ready, RoleName
from ottla.testing.history import Applied, Election

if TYPE_CHECKING:
    from ottla.raft.entry import Entry
    from ottla.testing.history import History
    from ottla.testing.sim_world import World


class RaftWatch:
    """While it is entered, what Raft nodes do goes into the history too."""

    def __init__(self, world: World, history: History) -> None:
        self._world = world
        self._history = history

    def __enter__(self) -> RaftWatch:
        self._ready, self._advance = RaftNode.ready, RaftNode.advance
        watch, plain_ready, plain_advance = self, RaftNode.ready, RaftNode.advance

        def ready(self: RaftNode) -> Ready | None:
            made = plain_ready(self)
            if made is not None:
                watch._look_at_leadership(made)
            return made

        def advance(self: RaftNode, ready: Ready) -> None:
            for entry in ready.committed:
                watch._applied(entry)
            plain_advance(self, ready)

        RaftNode.ready, RaftNode.advance = ready, advance  # type: ignore[method-assign]  # that is the point
        return self

    def __exit__(self, *_exit: object) -> None:
        RaftNode.ready, RaftNode.advance = self._ready, self._advance  # type: ignore[method-assign]  # as they were

    def _look_at_leadership(self, ready: Ready) -> None:
        if ready.leadership is not None and ready.leadership.role is RoleName.LEADER:
            election = Election(at=self._world.now, node=self._world.who, term=ready.leadership.term)
            self._world.note(election.node, f"LEADS the quorum in term {election.term}")
            self._history.elections.append(election)

    def _applied(self, entry: Entry) -> None:
        digest = hashlib.blake2b(entry.data, digest_size=8).hexdigest()
        applied = Applied(
            at=self._world.now, node=self._world.who, index=entry.index, digest=f"{entry.term}/{entry.kind}/{digest}"
        )
        self._history.applied.append(applied)
