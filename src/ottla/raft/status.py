"""A node's view of the quorum, for people and for DescribeQuorum."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.raft.core import Core
from ottla.raft.leader import Leader
from ottla.raft.progress import Pace, Progress
from ottla.raft.ready import Leadership
from ottla.values import value


@value
class ReplicaStatus:
    """One node as the leader knows it."""

    node_id: int
    is_voter: bool
    match_index: int
    pace: Pace | None
    """None: the leader itself."""
    ticks_since_heard: int
    ticks_since_caught_up: int | None


@value
class Status:
    leadership: Leadership
    commit: int
    last_index: int
    voters: Sequence[int]
    replicas: Sequence[ReplicaStatus]
    """Voters, then observers; only the leader knows any."""


def status_of(core: Core, leadership: Leadership, leader: Leader | None) -> Status:
    return Status(
        leadership=leadership,
        commit=core.log.commit,
        last_index=core.log.last_index,
        voters=core.log.voters.ids,
        replicas=() if leader is None else _replicas(core, leader),
    )


def _replicas(core: Core, leader: Leader) -> Sequence[ReplicaStatus]:
    own = ReplicaStatus(
        node_id=core.node_id,
        is_voter=core.is_voter,
        match_index=core.log.stable_index,
        pace=None,
        ticks_since_heard=0,
        ticks_since_caught_up=0,
    )
    others = [_replica(node_id, each, node_id in core.log.voters) for node_id, each in leader.replication]
    return sorted([own, *others], key=lambda replica: (not replica.is_voter, replica.node_id))


def _replica(node_id: int, progress: Progress, is_voter: bool) -> ReplicaStatus:
    return ReplicaStatus(
        node_id=node_id,
        is_voter=is_voter,
        match_index=progress.match,
        pace=progress.pace,
        ticks_since_heard=progress.ticks_since_heard,
        ticks_since_caught_up=progress.ticks_since_caught_up,
    )
