"""One Raft node: the door to this package.

It holds the rules that are the same in every role (which term a message is of, who gets a vote), and the one place
where roles change. What a role does is in `follower`, `candidate` and `leader`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ottla.errors import BrokerError, ErrorCode, invariant
from ottla.ports import Random
from ottla.raft.candidate import Candidate
from ottla.raft.core import Core, Next, Role
from ottla.raft.elections import answer_vote_request
from ottla.raft.entry import HardState, Snapshot
from ottla.raft.follower import Follower
from ottla.raft.leader import Leader
from ottla.raft.log import RaftLog
from ottla.raft.messages import (
    Append,
    Attach,
    Heartbeat,
    HeartbeatReply,
    InstallSnapshot,
    Message,
    Outgoing,
    ReadRequest,
    VoteReply,
    VoteRequest,
)
from ottla.raft.reads import Reader
from ottla.raft.ready import Leadership, Ready, RoleName
from ottla.raft.settings import RaftSettings
from ottla.raft.stable import StableLog
from ottla.raft.status import Status, status_of
from ottla.raft.voters import Voter, VoterSet

READ_ID_MAX = 2**62


class RaftNode:
    """See the package's docstring for how it is driven."""

    __slots__ = ("_core", "_handed_out", "_leadership", "_next_read_id", "_ready", "_role")

    def __init__(
        self,
        *,
        node_id: int,
        stable: StableLog,
        hard_state: HardState,
        random: Random,
        settings: RaftSettings | None = None,
    ) -> None:
        self._core = Core(
            node_id=node_id,
            settings=settings or RaftSettings(),
            random=random,
            log=RaftLog(stable),
            hard_state=hard_state,
        )
        self._role: Role = Follower(self._core)
        self._handed_out = hard_state
        self._leadership = self.leadership
        self._ready: Ready | None = None
        # Not from 0: an answer to a read of this node's earlier life must not be taken for one to a new read.
        self._next_read_id = random.randint(0, READ_ID_MAX)

    # What it is

    @property
    def node_id(self) -> int:
        return self._core.node_id

    @property
    def term(self) -> int:
        return self._core.term

    @property
    def leader_id(self) -> int | None:
        return self._core.leader_id

    @property
    def is_leader(self) -> bool:
        return isinstance(self._role, Leader)

    @property
    def is_alone(self) -> bool:
        """The leader of itself: nobody else is here to be told anything, so nothing happens by time alone."""
        role = self._role
        return isinstance(role, Leader) and role.is_alone

    @property
    def commit(self) -> int:
        return self._core.log.commit

    @property
    def applied(self) -> int:
        """The end of what was handed out as committed, and carried out."""
        return self._core.log.applied

    @property
    def voters(self) -> VoterSet:
        """The newest set in the log, committed or not: what is in force."""
        return self._core.log.voters

    @property
    def leadership(self) -> Leadership:
        core = self._core
        return Leadership(term=core.term, leader_id=core.leader_id, role=self._role_name(), is_voter=core.is_voter)

    def _role_name(self) -> RoleName:
        match self._role:
            case Leader():
                return RoleName.LEADER
            case Candidate(is_pre_vote=is_pre_vote):
                return RoleName.PRE_CANDIDATE if is_pre_vote else RoleName.CANDIDATE
            case _:
                return RoleName.FOLLOWER

    def status(self) -> Status:
        return status_of(self._core, self.leadership, self._role if isinstance(self._role, Leader) else None)

    # What happens to it

    def tick(self) -> None:
        """One unit of time has passed."""
        self._become(self._role.tick())

    @property
    def quiet_ticks(self) -> int:
        """So many units of time may pass in which nothing happens: `skip` tells of them later, all at once."""
        return self._role.quiet_ticks

    def skip(self, ticks: int) -> None:
        """At most `quiet_ticks` units of time have passed."""
        invariant(ticks <= self.quiet_ticks, f"{ticks} of {self.quiet_ticks} quiet ticks are skipped")
        if isinstance(self._role, Follower):
            self._role.skip(ticks)
        else:
            for _ in range(ticks):
                self.tick()

    def doubt_leader(self, *, has_ended: bool = False) -> None:
        """There are signs that the leader is dead, or even that its process has ended. They may be wrong: nothing but
        an election follows from it."""
        if isinstance(self._role, Follower):
            self._role.doubt(has_ended=has_ended)

    def trust_leader(self) -> None:
        """There are no such signs, or no longer."""
        if isinstance(self._role, Follower):
            self._role.trust()

    def step(self, message: Message) -> None:
        """A message has come."""
        invariant(message.sender != self.node_id, f"a message from itself: {message}")
        if not self._is_of_this_term(message):
            return
        if isinstance(message, VoteRequest):
            answer_vote_request(self._core, message)
            return
        if isinstance(message, Append | Heartbeat | InstallSnapshot) and isinstance(self._role, Candidate):
            self._become(Next.FOLLOWER)
        self._become(self._role.step(message))

    def _is_of_this_term(self, message: Message) -> bool:
        """Whether the message is still, or now, of this node's term, and so to be listened to (5.1)."""
        if message.term < self._core.term and not isinstance(message, Attach):
            self._tell_newer_term(message)
            return False
        if message.term > self._core.term:
            return self._hear_of_newer_term(message)
        return True

    def _tell_newer_term(self, message: Message) -> None:
        """A candidate or a leader of the past steps down when it hears this."""
        core = self._core
        if isinstance(message, VoteRequest):
            reply = VoteReply(sender=core.node_id, term=core.term, granted=False, pre_vote=message.pre_vote)
            core.send(message.sender, reply)
        elif isinstance(message, Append | Heartbeat | InstallSnapshot):
            core.send(message.sender, HeartbeatReply(sender=core.node_id, term=core.term, round=0))

    def _hear_of_newer_term(self, message: Message) -> bool:
        core = self._core
        match message:
            case VoteRequest(by_transfer=False) if core.is_in_lease:
                return False  # the leader is fine: whoever can't hear it must not disturb the others
            case VoteRequest(pre_vote=True) | VoteReply(pre_vote=True, granted=True) | Attach():
                return True  # about a term that nobody may ever enter
        core.enter_term(message.term)
        self._become(Next.FOLLOWER)
        return True

    def _become(self, following: Next | None) -> None:
        while following is not None:
            self._role.end()
            self._role = self._in_role(following)
            following = self._role.begin()

    def _in_role(self, following: Next) -> Role:
        match following:
            case Next.FOLLOWER:
                return Follower(self._core)
            case Next.PRE_CANDIDATE:
                return Candidate(self._core, is_pre_vote=True)
            case Next.CANDIDATE:
                return Candidate(self._core, is_pre_vote=False)
            case Next.TRANSFER_CANDIDATE:
                return Candidate(self._core, is_pre_vote=False, by_transfer=True)
            case Next.LEADER:
                return Leader(self._core)

    # What is asked of it

    def propose(self, data: Sequence[bytes]) -> range:
        """Add entries to the log; their indexes. They are committed if entries of this term come out at these indexes.

        BrokerError: NOT_LEADER_OR_FOLLOWER; THROTTLING_QUOTA_EXCEEDED where too much waits for a majority already.
        """
        return self._leader().propose(data)

    def add_voter(self, voter: Voter) -> int:
        """Make an observer that has the log a voter, or name the directory of a voter; the index of the change.

        BrokerError: NOT_LEADER_OR_FOLLOWER; DUPLICATE_VOTER; REPLICA_NOT_AVAILABLE if it lacks some of the log;
        REQUEST_TIMED_OUT if an earlier change may not be committed yet.
        """
        return self._leader().add_voter(voter)

    def remove_voter(self, node_id: int) -> int:
        """The index of the change. The leader may remove itself, and steps down when that is committed.

        BrokerError: as above; VOTER_NOT_FOUND; INVALID_REQUEST for the last voter.
        """
        return self._leader().remove_voter(node_id)

    def transfer_leadership(self, target: int | None = None) -> None:
        """Hand over to `target`, or to the voter that is furthest. Proposals are refused meanwhile.

        BrokerError: NOT_LEADER_OR_FOLLOWER; ELIGIBLE_LEADERS_NOT_AVAILABLE if there is no such other voter.
        """
        self._leader().transfer(target)

    def observe(self, node_ids: Collection[int]) -> None:
        """Send the log to these nodes without waiting for them to ask, if this is the leader."""
        if isinstance(self._role, Leader):
            self._role.observe(node_ids)

    def set_contacts(self, node_ids: Collection[int]) -> None:
        """Nodes to ask for the log, besides the voters that this node knows of."""
        self._core.contacts = frozenset(node_ids)

    def read(self) -> int:
        """Ask how far the state must be to serve a read that misses nothing. The answer, under the id that is
        returned, is in a later `Ready`; one that was lost on its way from another node never comes.

        BrokerError: LEADER_NOT_AVAILABLE; THROTTLING_QUOTA_EXCEEDED.
        """
        read_id, self._next_read_id = self._next_read_id, self._next_read_id + 1
        core = self._core
        if isinstance(self._role, Leader):
            if not self._role.read(Reader(self.node_id, read_id)):
                raise BrokerError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "too many reads wait already")
        elif core.leader_id is None:
            raise BrokerError(ErrorCode.LEADER_NOT_AVAILABLE)
        else:
            core.send(core.leader_id, ReadRequest(sender=self.node_id, term=core.term, read_id=read_id))
        return read_id

    def _leader(self) -> Leader:
        if not isinstance(self._role, Leader):
            raise BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"the leader is {self.leader_id}")
        return self._role

    # Snapshots

    def snapshot_at(self, index: int) -> Snapshot | None:
        """The description of a snapshot of the state as it was after `index`, which is applied.

        None: no use to take one now, the leader has sent a newer one.
        """
        return self._core.log.snapshot_at(index)

    def lacks(self, offer: InstallSnapshot) -> bool:
        """Whether the state that the leader offers will be needed when the offer is stepped."""
        log, last = self._core.log, offer.snapshot.last
        return offer.term >= self.term and last.index > log.commit and not log.matches(last)

    def compacted(self) -> None:
        """The runtime has put a newer snapshot on disk, and may have dropped entries that it covers."""
        self._core.log.compacted()

    def snapshot_failed(self, node_id: int) -> None:
        """The state could not be brought to that node: it is offered again when the node is next heard from."""
        if isinstance(self._role, Leader):
            self._role.snapshot_failed(node_id)

    # What comes of it

    def early_messages(self) -> Sequence[Outgoing]:
        """Messages that need not wait for the disk: send them at once, even while a Ready is being carried out.

        Those that nobody asks for here are in the next Ready.
        """
        self._role.flush()
        messages, self._core.early = self._core.early, []
        return messages

    def ready(self) -> Ready | None:
        """What must happen now; None if nothing must. The last one has been carried out (`advance`)."""
        invariant(self._ready is None, "the last Ready has not been carried out")
        self._role.flush()
        core, log = self._core, self._core.log
        snapshot, entries = log.offer()
        ready = Ready(
            leadership=self.leadership if self.leadership != self._leadership else None,
            hard_state=core.hard_state if core.hard_state != self._handed_out else None,
            snapshot=snapshot,
            entries=entries,
            messages=(*core.early, *core.outbox),
            committed=tuple(log.unapplied(core.settings.committed_bytes_max)),
            reads=tuple(core.read_results),
        )
        if ready == NOTHING:
            return None
        self._hand_out(ready)
        return ready

    def _hand_out(self, ready: Ready) -> None:
        self._ready = ready
        self._leadership = ready.leadership or self._leadership
        self._handed_out = ready.hard_state or self._handed_out
        self._core.early.clear()
        self._core.outbox.clear()
        self._core.read_results.clear()

    def advance(self, ready: Ready) -> None:
        """`ready` has been carried out. Between the two calls, messages, ticks and proposals may have come."""
        invariant(ready is self._ready, "another Ready than the last one is said to be carried out")
        self._ready = None
        log = self._core.log
        self._core.persisted = ready.hard_state or self._core.persisted
        log.mark_written()
        if ready.committed:
            log.mark_applied(ready.committed[-1].index)
        self._become(self._role.written())


NOTHING = Ready(leadership=None, hard_state=None, snapshot=None, entries=(), messages=(), committed=(), reads=())
