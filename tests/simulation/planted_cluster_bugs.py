"""Bugs that replication and the quorum might have, to be planted into the nodes of a simulated cluster."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.replication import replica_sessions
from ottla.replication.followers import Follower
from ottla.replication.partition import Partition
from ottla.replication.readable import NO_EPOCH, Readable
from ottla.replication.replica import Replica
from ottla.runtime.quorum_store import QuorumStore
from ottla.runtime.replica_fetchers import ReplicaFetcher
from ottla.runtime.turned_away import TurnedAway
from ottla.storage.log import Log


def acknowledge_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    """acks=all is answered when the leader has appended, before anything is on any disk."""
    patch.setattr(Partition, "when_committed", lambda _self, _offset, done: done(None))


def count_what_followers_have_not_synced(patch: pytest.MonkeyPatch) -> None:
    """A follower asks for more, and so says that it has what it got, before that is on its disk."""
    take = ReplicaFetcher._take

    def take_and_go_on(self: ReplicaFetcher, number: int, response: Any) -> None:
        take(self, number, response)
        for replica in self._replicas.values():
            if replica.is_busy and replica.log.pending:
                replica.is_busy = False
                self._to_name[replica] = None
        self._committing = 0

    def committed(self: ReplicaFetcher, _appended: Any, _done: Any) -> None:
        self._go_on()

    patch.setattr(ReplicaFetcher, "_take", take_and_go_on)
    patch.setattr(ReplicaFetcher, "_committed", committed)


def skip_the_epoch_check(patch: pytest.MonkeyPatch) -> None:
    """A leader serves whoever asks, whatever epoch the asker is in, and whatever its log ends with."""
    patch.setattr(Readable, "check_epoch", lambda _self, _epoch: None)
    patch.setattr(replica_sessions, "divergence", lambda _log, _last_epoch, _offset: None)


def vote_without_persisting(patch: pytest.MonkeyPatch) -> None:
    """A node that starts again has forgotten which term it was in, and whom it voted for."""
    patch.setattr(QuorumStore, "write_hard_state", lambda _self, _hard_state: None)


def shrink_without_the_controller(patch: pytest.MonkeyPatch) -> None:
    """A leader that finds a follower too slow waits for it no longer, before that is agreed upon."""

    def count(self: Partition) -> None:
        decisive = self.proposed_isr or self.isr

        def counts(follower: Follower) -> bool:
            return follower.replica_id in decisive or follower.is_joining

        self._counting = [follower for follower in self.followers.values() if counts(follower)]

    patch.setattr(Partition, "_count", count)


def lose_truncations(patch: pytest.MonkeyPatch) -> None:
    """A follower that is told to cut its log takes that for done, and goes on behind what it should have cut."""
    forgetful: set[Replica] = set()

    def truncate(self: ReplicaFetcher, replica: Replica, _offset: int) -> None:
        forgetful.add(replica)
        self._delay(replica)

    def last_epoch(self: Replica) -> int:
        return NO_EPOCH if self in forgetful else self.log.leader_epochs.latest

    patch.setattr(ReplicaFetcher, "_truncate", truncate)
    patch.setattr(Replica, "last_epoch", property(last_epoch))


def blame_clients_for_gaps(patch: pytest.MonkeyPatch) -> None:
    """A new leader neither remembers whom it turned away nor waits for what another has not answered. Each of the two
    mends by itself what the simulator comes across."""
    patch.setattr(TurnedAway, "note", lambda *_batch: None)
    patch.setattr(Log, "_check_gap", lambda *_batch: None)
