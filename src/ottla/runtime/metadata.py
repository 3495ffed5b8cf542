"""The metadata of a node: the controller's log, the image made of it, and who must act when it changes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.metadata.controller import Controller
from ottla.metadata.image import MetadataImage
from ottla.metadata.internal_topics import METADATA_TOPIC
from ottla.metadata.records import MetadataRecord, decode_record, encode_record
from ottla.metadata.state import Changes
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.replicated import Result, Token
from ottla.replication.partition import Partition
from ottla.runtime.shards import ShardRuntime
from ottla.services import Deferred
from ottla.types import METADATA_TOPIC_ID

if TYPE_CHECKING:
    from ottla.ports import Clock
    from ottla.runtime.committer import Committer
    from ottla.runtime.timers import Timers
    from ottla.storage.log import Log

log = logging.getLogger(__name__)

T = TypeVar("T")
CONTROLLER_EPOCH = 1
"""The leader epoch of the metadata log while one node alone keeps it."""


class Metadata:
    def __init__(self, *, controller: Controller, log: Log, committer: Committer, clock: Clock, timers: Timers) -> None:
        self._listeners: list[Callable[[Changes], None]] = []
        self._controller = controller
        self._shard: ShardRuntime[Controller, MetadataRecord] = ShardRuntime(
            shard=controller,
            partition=Partition(
                topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, index=0, leader_epoch=CONTROLLER_EPOCH, log=log
            ),
            committer=committer,
            clock=clock,
            timers=timers,
            encode=encode_record,
            decode=decode_record,
            on_replayed=self._replayed,
        )
        self.image: MetadataImage = controller.image

    def call(self, decide: Callable[[Controller, Token, int], Result[Any, T]]) -> Deferred[T]:
        return self._shard.call(decide)

    def listen(self, listener: Callable[[Changes], None]) -> None:
        """Call `listener` with every change from now on."""
        self._listeners.append(listener)

    def load(self, now_ms: int) -> int:
        """Replay what earlier runs have left; the number of records."""
        return sum(self._shard.load(now_ms))

    def create_internal_topic(self, topic: CreatableTopic) -> Deferred[None]:
        created = self.call(
            lambda controller, _token, _now_ms: controller.create_topics(
                CreateTopicsRequest(topics=[topic]), automatic=True
            )
        )
        return created.then(lambda _: None)

    def _replayed(self, _: Sequence[MetadataRecord]) -> None:
        changes = self._controller.take_changes()
        self.image = self._controller.image
        for listener in self._listeners:
            listener(changes)

    def close(self) -> None:
        self._shard.close()
