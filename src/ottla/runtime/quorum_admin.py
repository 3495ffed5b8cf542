"""The quorum as people see and change it: for DescribeQuorum, AddRaftVoter and RemoveRaftVoter.

A node that is to become a voter may have some of the log yet to get, and changes go one at a time: so a change is tried
again and again until it is made, or the time that the caller gave is over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.errors import BrokerError, ErrorCode
from ottla.raft.status import ReplicaStatus
from ottla.raft.voters import UNKNOWN_DIRECTORY, Voter
from ottla.services import Deferred, QuorumReplica, QuorumView

if TYPE_CHECKING:
    from ottla.ports import Clock
    from ottla.runtime.metadata import Metadata
    from ottla.runtime.timers import Timers

TRY_AGAIN_MS = 100
NOT_YET = frozenset({ErrorCode.REPLICA_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT})
UNKNOWN_MS = -1
COMMIT_MS_MAX = 30_000
"""How long a change may take to be committed by those who vote."""


class QuorumAdmin:
    def __init__(self, *, metadata: Metadata, clock: Clock, timers: Timers) -> None:
        self._metadata = metadata
        self._quorum = metadata.quorum
        self._clock = clock
        self._timers = timers

    # Looking

    def describe(self) -> QuorumView:
        """NOT_LEADER_OR_FOLLOWER where this node does not lead: only the leader knows how far the others are."""
        if not self._metadata.is_active:
            raise BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        status, now_ms = self._quorum.status(), self._clock.now_ms()
        replicas = [(each.is_voter, self._replica(each, now_ms)) for each in status.replicas]
        return QuorumView(
            leader_id=self._quorum.node_id,
            leader_epoch=status.leadership.term,
            high_watermark=self._metadata.applied_offset + 1,
            voters=[replica for is_voter, replica in replicas if is_voter],
            observers=[replica for is_voter, replica in replicas if not is_voter],
        )

    def _replica(self, status: ReplicaStatus, now_ms: int) -> QuorumReplica:
        return QuorumReplica(
            node_id=status.node_id,
            directory_id=self._directory_of(status.node_id),
            log_end_offset=self._quorum.store.log.end_offset_near(status.match_index),
            last_fetch_ms=now_ms - status.ticks_since_heard * self._quorum.tick_ms,
            last_caught_up_ms=UNKNOWN_MS
            if status.ticks_since_caught_up is None
            else now_ms - status.ticks_since_caught_up * self._quorum.tick_ms,
        )

    def _directory_of(self, node_id: int) -> bytes:
        voter = self._quorum.voters.find(node_id)
        if voter is not None and voter.directory_id != UNKNOWN_DIRECTORY:
            return voter.directory_id
        broker = self._metadata.image.brokers.get(node_id)
        return broker.log_dirs[0] if broker is not None and broker.log_dirs else UNKNOWN_DIRECTORY

    # Changing

    def add_voter(self, node_id: int, directory_id: bytes, *, timeout_ms: int) -> Deferred[None]:
        """Done when the change is committed."""
        self._quorum.observe([node_id])
        return self._change(lambda: self._metadata.add_voter(Voter(node_id, directory_id)), timeout_ms)

    def remove_voter(self, node_id: int, directory_id: bytes, *, timeout_ms: int = COMMIT_MS_MAX) -> Deferred[None]:
        voter = self._quorum.voters.find(node_id)
        if voter is None or voter.directory_id not in (UNKNOWN_DIRECTORY, directory_id):
            raise BrokerError(ErrorCode.VOTER_NOT_FOUND, f"node {node_id} with that directory is not a voter")
        return self._change(lambda: self._metadata.remove_voter(node_id), timeout_ms)

    def _change(self, change: Callable[[], int], timeout_ms: int) -> Deferred[None]:
        answer: Deferred[None] = Deferred()
        deadline_ms = self._clock.monotonic_ms() + timeout_ms

        def attempt() -> None:
            try:
                index = change()
            except BrokerError as error:
                if error.code in NOT_YET and self._clock.monotonic_ms() < deadline_ms:
                    self._timers.after_ms(TRY_AGAIN_MS, attempt)
                elif error.code in NOT_YET:
                    answer.fail(BrokerError(ErrorCode.REQUEST_TIMED_OUT, str(error)))
                else:
                    answer.fail(error)
                return
            self._metadata.when_applied(index).on_done(_passing_on(answer))

        attempt()
        return answer


def _passing_on(answer: Deferred[None]) -> Callable[[Deferred[None]], None]:
    def done(applied: Deferred[None]) -> None:
        if applied.error is None:
            answer.complete(None)
        else:
            answer.fail(applied.error)

    return done
