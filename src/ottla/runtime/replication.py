"""All that copies partitions between nodes, wired together.

Partitions ──▶ roles from the metadata          Committer ──▶ what is durable
    │ led: ReplicaFetches (followers' fetches), IsrChanges (AlterPartition), CommitAcks (acks=all)
    └ followed: ReplicaFetchers (own fetches from leaders)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.runtime.acks import CommitAcks
from ottla.runtime.high_watermarks import HighWatermarks
from ottla.runtime.isr_changes import IsrChanges
from ottla.runtime.partitions import Partitions
from ottla.runtime.replica_fetchers import ReplicaFetchers
from ottla.runtime.replica_fetches import ReplicaFetches

if TYPE_CHECKING:
    from ottla.config import BrokerConfig, LogConfig
    from ottla.metadata.image import MetadataImage
    from ottla.metadata.state import Changes
    from ottla.observability.metrics import Refusals
    from ottla.ports import Clock, Disk
    from ottla.runtime.broker_client import BrokerClient
    from ottla.runtime.committer import Committer
    from ottla.runtime.controller_channel import ControllerChannel
    from ottla.runtime.outbox import Outbox
    from ottla.runtime.room import Room
    from ottla.runtime.timers import Timers
    from ottla.storage.log_manager import LogManager


class Replication:
    def __init__(
        self,
        *,
        config: BrokerConfig,
        disk: Disk,
        logs: LogManager,
        image: Callable[[], MetadataImage],
        log_config: Callable[[str], LogConfig],
        committer: Committer,
        client: BrokerClient,
        channel: ControllerChannel,
        broker_epoch: Callable[[], int],
        new_session_id: Callable[[], int],
        clock: Clock,
        timers: Timers,
        outbox: Outbox,
        loop: asyncio.AbstractEventLoop,
        refusals: Refusals,
        room: Room,
    ) -> None:
        self._image = image
        self._watermarks = HighWatermarks(
            disk, timers=timers, interval_ms=config.replication.high_watermark_checkpoint_interval_ms
        )
        self.partitions = Partitions(
            node_id=config.node_id,
            logs=logs,
            image=image,
            log_config=log_config,
            committer=committer,
            clock=clock,
            timers=timers,
            known_high_watermark=self._watermarks.of,
        )
        self._isr = IsrChanges(
            node_id=config.node_id,
            broker_epoch=broker_epoch,
            image=image,
            send=channel.send,
            led=self.partitions.replicated,
            config=config.replication,
            clock=clock,
            timers=timers,
            loop=loop,
        )
        self.fetches = ReplicaFetches(
            find=self.partitions.get_by_id,
            on_caught_up=self._isr.caught_up,
            clock=clock,
            timers=timers,
            outbox=outbox,
            new_session_id=new_session_id,
            catch_up_bytes_per_s=config.replication.catch_up_bytes_per_second,
        )
        self._fetchers = ReplicaFetchers(
            node_id=config.node_id,
            broker_epoch=broker_epoch,
            address_of=self._address_of,
            send=client.send,
            committer=committer,
            room=room,
            config=config.replication,
            clock=clock,
            timers=timers,
            loop=loop,
        )
        self.acks = CommitAcks(clock=clock, timers=timers, refusals=refusals)
        self.partitions.on_follow = self._fetchers.follow
        self.partitions.on_unfollow = self._fetchers.unfollow
        self.partitions.on_first_reader = self._fetchers.hurry
        committer.on_durable = self.fetches.flush
        committer.on_written = self.fetches.send_written

    def start(self) -> None:
        """Take the roles that the metadata gives this node; from here on `changed` is to be called."""
        self.partitions.start()
        self._isr.start()
        self._watermarks.start(self.partitions.copies)

    def changed(self, changes: Changes) -> None:
        self.partitions.changed(changes)
        if changes.brokers:
            self._isr.brokers_changed(changes.brokers)
        self.fetches.flush()

    def close(self) -> None:
        """Nothing more is copied. What is known is written down."""
        self._fetchers.close()
        self._isr.close()
        self._watermarks.write()

    def _address_of(self, broker_id: int) -> tuple[str, int] | None:
        broker = self._image().brokers.get(broker_id)
        return None if broker is None else (broker.client_endpoint.host, broker.client_endpoint.port)
