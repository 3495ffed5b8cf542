"""A node that wants to lead.

First it asks whether it would be elected, which changes nothing anywhere (pre-vote; dissertation, 9.6): a node that
was cut off does not come back with a higher term and make everybody vote. If a majority would, it enters the next term,
votes for itself and asks in earnest. A node that the leader itself has chosen asks in earnest at once.
"""

from __future__ import annotations

from ottla.raft.core import Core, Next
from ottla.raft.messages import Message, VoteReply, VoteRequest
from ottla.raft.quorum import Outcome, Tally


class Candidate:
    __slots__ = ("_by_transfer", "_core", "_tally", "is_pre_vote")

    def __init__(self, core: Core, *, is_pre_vote: bool, by_transfer: bool = False) -> None:
        self._core = core
        self.is_pre_vote = is_pre_vote
        self._by_transfer = by_transfer
        self._tally = Tally(core.log.voters.ids)

    def begin(self) -> Next | None:
        core = self._core
        core.leader_id = None
        core.rest()
        if self.is_pre_vote:
            core.seek_leader()  # this node may have been removed, and nobody told it
        else:
            core.enter_term(core.term + 1)
            core.vote_for(core.node_id)
        request = VoteRequest(
            sender=core.node_id,
            term=core.term + 1 if self.is_pre_vote else core.term,
            last=core.log.last,
            pre_vote=self.is_pre_vote,
            by_transfer=self._by_transfer,
        )
        for voter in core.log.voters.ids:
            if voter != core.node_id:
                core.send(voter, request)
        return self._count_own_vote()

    def step(self, message: Message) -> Next | None:
        match message:
            case VoteReply(pre_vote=self.is_pre_vote):
                return self._count(message.sender, granted=message.granted)
            case _:
                return None

    def _count_own_vote(self) -> Next | None:
        """Like every other vote, it counts only once it would survive a crash. A pre-vote is no promise."""
        core = self._core
        if self.is_pre_vote or core.persisted == core.hard_state:
            return self._count(core.node_id, granted=True)
        return None

    def _count(self, voter: int, *, granted: bool) -> Next | None:
        outcome = self._tally.record(voter, granted)
        if outcome is Outcome.WON:
            return Next.CANDIDATE if self.is_pre_vote else Next.LEADER
        return Next.FOLLOWER if outcome is Outcome.LOST else None

    @property
    def quiet_ticks(self) -> int:
        """It counts none while its disk is slow, so each has to be told of when it has passed."""
        return 0

    def tick(self) -> Next | None:
        """Nobody won: try again, in the next term (5.2). But not while the disk is slow: nobody was asked yet."""
        core = self._core
        if core.persisted != core.hard_state:
            return None
        core.ticks_of_silence += 1
        return Next.PRE_CANDIDATE if core.ticks_of_silence >= core.election_timeout_ticks else None

    def flush(self) -> None:
        """It has said everything already."""

    def written(self) -> Next | None:
        return self._count_own_vote()

    def end(self) -> None:
        """Nobody waits for a candidate."""
