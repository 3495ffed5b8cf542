"""Who gets a vote (paper, 5.2 and 5.4.1), in whatever role it is asked of."""

from __future__ import annotations

from ottla.raft.core import Core
from ottla.raft.messages import VoteReply, VoteRequest


def answer_vote_request(core: Core, request: VoteRequest) -> None:
    """Every node votes, even one that knows itself as no voter: it may be one by an entry that has not reached it."""
    granted = _may_vote(core, request) and core.log.is_up_to_date(request.last)
    if granted and not request.pre_vote:
        core.vote_for(request.sender)
        core.ticks_of_silence = 0
    # A pre-vote is granted for the candidate's next term, which this node has not entered.
    term = request.term if granted else core.term
    reply = VoteReply(sender=core.node_id, term=term, granted=granted, pre_vote=request.pre_vote)
    core.send(request.sender, reply)


def _may_vote(core: Core, request: VoteRequest) -> bool:
    if request.pre_vote and request.term > core.term:
        return True
    return core.vote == request.sender or (core.vote is None and core.leader_id is None)
