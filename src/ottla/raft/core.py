"""What a node is, whatever its role: its term and vote, its log, its patience, and what it has to say."""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from ottla.errors import invariant
from ottla.ports import Random
from ottla.raft.entry import HardState
from ottla.raft.log import RaftLog
from ottla.raft.messages import Attach, Message, Outgoing, PromisesNothing
from ottla.raft.ready import ReadResult
from ottla.raft.settings import RaftSettings


class Core:
    __slots__ = (
        "_random",
        "contacts",
        "early",
        "election_timeout_ticks",
        "leader_id",
        "log",
        "node_id",
        "outbox",
        "persisted",
        "read_results",
        "settings",
        "term",
        "ticks_of_silence",
        "vote",
    )

    def __init__(
        self, *, node_id: int, settings: RaftSettings, random: Random, log: RaftLog, hard_state: HardState
    ) -> None:
        invariant(
            hard_state.term >= log.last.term, f"the log is of term {log.last.term}, the node of {hard_state.term}"
        )
        self.node_id = node_id
        self.settings = settings
        self.log = log
        self.term = hard_state.term
        self.vote = hard_state.vote
        self.persisted = hard_state
        """What is on disk of `hard_state`."""
        self.leader_id: int | None = None
        """The leader of `term`, once it is known."""
        self.contacts: frozenset[int] = frozenset()
        """Nodes that may be voters, for one that knows of no voters yet, or only of old ones."""
        self.outbox: list[Outgoing] = []
        """What must not be said before what is handed out with it is on disk."""
        self.early: list[Outgoing] = []
        """What may be said at once."""
        self.read_results: list[ReadResult] = []
        self.ticks_of_silence = 0
        """Since the leader was heard from, a vote was given, or (in a leader) the followers were counted."""
        self._random = random
        self.election_timeout_ticks = 0
        self.rest()

    @property
    def is_voter(self) -> bool:
        return self.node_id in self.log.voters

    @property
    def may_campaign(self) -> bool:
        """A voter, or one whose removal is not known to be committed: it may be the only one whose log is long enough
        to be elected, and the removal can only be committed by a leader (dissertation, 4.2.2)."""
        return self.log.may_be_voter(self.node_id)

    @property
    def hard_state(self) -> HardState:
        return HardState(term=self.term, vote=self.vote)

    @property
    def is_in_lease(self) -> bool:
        """There is a leader, and it was there a moment ago: no reason to elect another (dissertation, 4.2.3)."""
        return self.leader_id is not None and self.ticks_of_silence < self.settings.election_ticks

    def enter_term(self, term: int) -> None:
        invariant(term > self.term, f"from term {self.term} to {term}")
        self.term = term
        self.vote = None
        self.leader_id = None

    def vote_for(self, candidate: int) -> None:
        invariant(self.vote in (None, candidate), f"a second vote in term {self.term}: {self.vote}, then {candidate}")
        self.vote = candidate

    def follow(self, leader_id: int) -> None:
        invariant(
            self.leader_id in (None, leader_id), f"two leaders in term {self.term}: {self.leader_id} and {leader_id}"
        )
        self.leader_id = leader_id
        self.ticks_of_silence = 0

    def rest(self) -> None:
        """Wait anew, for a time that differs from the others', so that two rarely campaign at once (5.2)."""
        self.ticks_of_silence = 0
        self.election_timeout_ticks = self._random.randint(
            self.settings.election_ticks, 2 * self.settings.election_ticks - 1
        )

    def seek_leader(self) -> None:
        """Ask whoever may know to be sent the log. Only the leader listens."""
        for node_id in sorted({*self.log.voters.ids, *self.contacts} - {self.node_id}):
            self.send(node_id, Attach(sender=self.node_id, term=self.term))

    def send(self, to: int, message: Message) -> None:
        invariant(to != self.node_id, f"a message to itself: {message}")
        is_early = isinstance(message, PromisesNothing) and self.persisted.term == self.term
        (self.early if is_early else self.outbox).append(Outgoing(to=to, message=message))


class Next(Enum):
    """What a role wants to become. Only `node` makes it so."""

    FOLLOWER = "follower"
    PRE_CANDIDATE = "pre-candidate"
    CANDIDATE = "candidate"
    TRANSFER_CANDIDATE = "transfer candidate"
    LEADER = "leader"


class Role(Protocol):
    """How a node behaves while it is a follower, a candidate or the leader."""

    def begin(self) -> Next | None:
        """Do what is to be done first."""

    def step(self, message: Message) -> Next | None:
        """A message of this very term that is not a request for a vote."""

    @property
    def quiet_ticks(self) -> int:
        """How many more ticks change nothing that others could see."""

    def tick(self) -> Next | None: ...

    def flush(self) -> None:
        """Say what has gathered: this is the end of a turn."""

    def written(self) -> Next | None:
        """What was handed out is on disk."""

    def end(self) -> None:
        """The role is given up: tell those who wait for it."""
