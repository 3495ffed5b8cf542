"""The cluster's metadata as a node begins with it: a Raft log on its disk, and a controller for when it leads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.metadata.controller import Controller
from ottla.raft.voters import Voter, VoterSet
from ottla.runtime.metadata import Metadata
from ottla.runtime.quorum import Quorum
from ottla.runtime.quorum_store import QuorumStore

if TYPE_CHECKING:
    import asyncio

    from ottla.config import BrokerConfig
    from ottla.ports import Clock, Disk, Random
    from ottla.runtime.committer import Committer
    from ottla.runtime.identity import Identity
    from ottla.runtime.timers import Timers
    from ottla.storage.log import Log
    from ottla.storage.log_manager import LogManager


def new_metadata(
    *,
    config: BrokerConfig,
    identity: Identity,
    disk: Disk,
    logs: LogManager,
    metadata_log: Log,
    committer: Committer,
    clock: Clock,
    timers: Timers,
    loop: asyncio.AbstractEventLoop,
    random: Random,
) -> Metadata:
    """Not loaded yet, and without a way to other nodes."""
    own = Voter(config.node_id, identity.directory_id)
    quorum = Quorum(
        node_id=own.node_id,
        directory_id=own.directory_id,
        store=QuorumStore(disk, logs, metadata_log, founders=_founders(identity), own=own),
        committer=committer,
        clock=clock,
        timers=timers,
        loop=loop,
        random=random,
        tick_ms=config.quorum.tick_ms,
    )
    return Metadata(
        quorum=quorum,
        disk=disk,
        new_controller=lambda image, end_offset: Controller(config, random, image=image, end_offset=end_offset),
        clock=clock,
        timers=timers,
    )


def _founders(identity: Identity) -> VoterSet | None:
    """None where others have founded the cluster: then this node begins as an observer."""
    if not identity.is_founder:
        return None
    return VoterSet(tuple(Voter(*founder) for founder in identity.voters))
