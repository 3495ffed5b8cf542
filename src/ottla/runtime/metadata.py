"""The metadata of a node: the controller's log, the image made of it, and who must act when it changes."""

from __future__ import annotations

import logging
from collections.abc import Callable
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
    """Decisions are made on the controller's newest image; everybody else sees `image`, which is durable."""

    def __init__(
        self,
        *,
        new_controller: Callable[[], Controller],
        log: Log,
        committer: Committer,
        clock: Clock,
        timers: Timers,
    ) -> None:
        self._new_controller = new_controller
        self._partition = Partition(
            topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, index=0, leader_epoch=CONTROLLER_EPOCH, log=log
        )
        self._committer = committer
        self._clock = clock
        self._timers = timers
        self._listeners: list[Callable[[Changes], None]] = []
        self._shard = self._new_shard()
        self.image: MetadataImage = self._shard.shard.image

    def _new_shard(self) -> ShardRuntime[Controller, MetadataRecord]:
        return ShardRuntime(
            shard=self._new_controller(),
            partition=self._partition,
            committer=self._committer,
            clock=self._clock,
            timers=self._timers,
            encode=encode_record,
            decode=decode_record,
            on_replayed=self._prepare,
            on_lost=self._start_again,
        )

    def call(self, decide: Callable[[Controller, Token, int], Result[Any, T]]) -> Deferred[T]:
        return self._shard.call(decide)

    def listen(self, listener: Callable[[Changes], None]) -> None:
        """Call `listener` with every change from now on."""
        self._listeners.append(listener)

    def load(self) -> int:
        """Replay what earlier runs have left; the number of records."""
        return sum(self._shard.load())

    def create_internal_topic(self, topic: CreatableTopic) -> Deferred[None]:
        created = self.call(
            lambda controller, _token, _now_ms: controller.create_topics(
                CreateTopicsRequest(topics=[topic]), automatic=True
            )
        )
        return created.then(lambda _: None)

    def _prepare(self) -> Callable[[], None]:
        """The image as it is now, to be shown when its records are durable."""
        controller = self._shard.shard
        changes, image = controller.take_changes(), controller.image
        return lambda: self._publish(changes, image)

    def _publish(self, changes: Changes, image: MetadataImage) -> None:
        self.image = image
        for listener in self._listeners:
            listener(changes)

    def _start_again(self) -> None:
        """The disk refused what the controller had decided: forget it, and stand where the log stands."""
        listeners, self._listeners = self._listeners, []
        self._shard = self._new_shard()
        self.load()
        self._listeners = listeners

    def close(self) -> None:
        self._shard.close()
