"""A node that follows: it takes what the leader sends, and doubts the leader when it hears nothing for too long.

A voter in doubt campaigns. Any other node, an observer, asks the voters that it knows of to be sent the log.
"""

from __future__ import annotations

from ottla.errors import invariant
from ottla.raft.core import Core, Next
from ottla.raft.messages import (
    Append,
    AppendRejected,
    AppendReply,
    Heartbeat,
    HeartbeatReply,
    InstallSnapshot,
    Message,
    ReadReply,
    TimeoutNow,
)
from ottla.raft.ready import ReadResult

OBSERVER_PATIENCE = 2
"""Observers get fewer heartbeats than voters, and wait this much longer for one."""

DOUBT_TICKS = 4
"""Between the campaigns of two voters that heard at the same moment that the leader seems to be dead."""


class Follower:
    __slots__ = ("_core", "_is_in_doubt", "_ticks_to_attach")

    def __init__(self, core: Core) -> None:
        self._core = core
        self._is_in_doubt = False
        """Others take the leader for dead, which has not missed a heartbeat here yet."""
        self._ticks_to_attach = 0

    def begin(self) -> Next | None:
        self._core.rest()
        return None

    def step(self, message: Message) -> Next | None:
        core = self._core
        match message:
            case Append():
                self._follow(message.sender)
                self._append(message)
            case Heartbeat() if not self._is_for_an_earlier_life(message):
                self._follow(message.sender)
                self._heartbeat(message)
            case InstallSnapshot():
                self._follow(message.sender)
                self._install(message)
            case TimeoutNow():
                return Next.TRANSFER_CANDIDATE if core.may_campaign else None
            case ReadReply():
                core.read_results.append(ReadResult(read_id=message.read_id, index=message.index))
        return None

    def _follow(self, leader: int) -> None:
        self._core.follow(leader)
        self._is_in_doubt = False

    def _is_for_an_earlier_life(self, message: Heartbeat) -> bool:
        """For the voter that this node was before its disk was lost. Until that one is removed, it asks for the log."""
        return message.match_index > self._core.log.last_index and not self._core.may_campaign

    def _heartbeat(self, message: Heartbeat) -> None:
        core, log = self._core, self._core.log
        invariant(
            message.match_index <= log.last_index,
            f"node {core.node_id} has acknowledged {message.match_index} entries, and has {log.last_index}: it lost "
            "its disk. Remove it from the voters, and add it again with an empty directory",
        )
        if log.matches(message.commit):
            log.commit_to(message.commit.index)
        core.send(message.sender, HeartbeatReply(sender=core.node_id, term=core.term, round=message.round))

    # The log

    def _append(self, message: Append) -> None:
        log = self._core.log
        if message.previous.index < log.commit:
            self._acknowledge(message.sender, log.commit)  # an old message: what it brings is here
        elif log.matches(message.previous):
            log.merge(message.entries)
            last_new = message.previous.index + len(message.entries)
            log.commit_to(min(message.commit, last_new))
            self._acknowledge(message.sender, last_new)
        else:
            self._reject(message)

    def _acknowledge(self, leader: int, match_index: int) -> None:
        core = self._core
        core.send(leader, AppendReply(sender=core.node_id, term=core.term, match_index=match_index))

    def _reject(self, message: Append) -> None:
        core = self._core
        rejected = AppendRejected(
            sender=core.node_id,
            term=core.term,
            rejected_index=message.previous.index,
            hint=core.log.last_agreeable(message.previous),
        )
        core.send(message.sender, rejected)

    def _install(self, message: InstallSnapshot) -> None:
        log, snapshot = self._core.log, message.snapshot
        if snapshot.last.index > log.commit:
            if log.matches(snapshot.last):
                log.commit_to(snapshot.last.index)  # the entries are here: they need not be thrown away
            else:
                log.restore(snapshot)
        self._acknowledge(message.sender, log.commit)

    # Time

    @property
    def quiet_ticks(self) -> int:
        """How many more ticks only count the silence of a leader that is there."""
        core = self._core
        if core.leader_id is None or core.log.voters.ids == (core.node_id,):
            return 0
        if self._is_in_doubt:
            patience = core.settings.heartbeat_ticks + 1
        else:
            patience = core.election_timeout_ticks * (1 if core.may_campaign else OBSERVER_PATIENCE)
        return max(0, patience - core.ticks_of_silence - 1)

    def skip(self, ticks: int) -> None:
        self._core.ticks_of_silence += ticks

    def tick(self) -> Next | None:
        core = self._core
        core.ticks_of_silence += 1
        if self._is_in_doubt:
            self.doubt()
        if not core.may_campaign:
            self._seek_leader()
        elif core.ticks_of_silence >= core.election_timeout_ticks or core.log.voters.ids == (core.node_id,):
            return Next.PRE_CANDIDATE
        return None

    def doubt(self, *, has_ended: bool = False) -> None:
        """Others take the leader for dead. When it has missed a heartbeat here too, or its process was seen to have
        ended, do not wait for the silence to become long: the first of the other voters campaigns at the next tick, by
        when all will have heard of the doubt and give it their votes, and the others one after the other if that comes
        to nothing."""
        core = self._core
        if core.leader_id is None or not core.may_campaign:
            return
        self._is_in_doubt = not has_ended and core.ticks_of_silence <= core.settings.heartbeat_ticks
        if self._is_in_doubt:
            return
        before = sum(node_id < core.node_id for node_id in core.log.voters.ids if node_id != core.leader_id)
        patience = min(core.election_timeout_ticks - core.ticks_of_silence, 1 + before * DOUBT_TICKS)
        core.ticks_of_silence = max(core.ticks_of_silence, core.settings.election_ticks)
        core.election_timeout_ticks = core.ticks_of_silence + patience

    def trust(self) -> None:
        """Nobody takes the leader for dead, or no longer."""
        self._is_in_doubt = False

    def _seek_leader(self) -> None:
        core = self._core
        if core.leader_id is not None:
            if core.ticks_of_silence < core.election_timeout_ticks * OBSERVER_PATIENCE:
                return
            core.leader_id = None
            self._ticks_to_attach = 0
        if self._ticks_to_attach > 0:
            self._ticks_to_attach -= 1
            return
        self._ticks_to_attach = core.election_timeout_ticks
        core.seek_leader()

    def flush(self) -> None:
        """It has said everything already."""

    def written(self) -> Next | None:
        return None

    def end(self) -> None:
        """Nobody waits for a follower."""
