"""Markers to the leaders of a transaction's partitions, wherever they are, until every one has been written.

A transaction that was decided is carried out, however long it takes: leaders move, nodes die and come back, this node
may cease to be the coordinator, and then the next one starts over. What goes to the same node waits for the request
before it and shares the next one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.errors import ErrorCode
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla.runtime.controller_channel import client_address
from ottla.runtime.marker_writing import MarkerWriter
from ottla.transactions.markers import Marker
from ottla.types import TopicPartition

if TYPE_CHECKING:
    from ottla.metadata.image import MetadataImage
    from ottla.runtime.broker_client import BrokerClient
    from ottla.runtime.timers import Timers
    from ottla.services import Deferred

log = logging.getLogger(__name__)

REQUEST_TIMEOUT_MS = 10_000
CHANNEL = "markers"
"""Of its own: a marker may wait long for the replicas of its partition, and nothing else should wait with it."""
RETRY_MS = 20
RETRY_MS_MAX = 1_000
UNKNOWN_MS_MAX = 5_000
"""A partition that this node has not heard of for so long does not exist: its image is not further behind than that."""
DONE = frozenset({ErrorCode.NONE, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION})


class Sending:
    """One transaction, on its way."""

    __slots__ = ("attempts", "is_wanted", "left", "marker", "on_done", "open", "since_s", "transactional_id")

    def __init__(
        self,
        transactional_id: str,
        marker: Marker,
        partitions: set[TopicPartition],
        *,
        is_wanted: Callable[[], bool],
        on_done: Callable[[], None],
        now_s: float,
    ) -> None:
        self.transactional_id = transactional_id
        self.marker = marker
        self.left = partitions
        """Partitions that have no marker yet."""
        self.open = 0
        """How many of them somebody is being asked about."""
        self.is_wanted = is_wanted
        self.on_done = on_done
        self.attempts = 0
        self.since_s = now_s


Part = tuple[Sending, list[TopicPartition]]


class MarkerSender:
    def __init__(
        self,
        *,
        node_id: int,
        image: Callable[[], MetadataImage],
        image_is_newest: Callable[[], bool],
        writer: MarkerWriter,
        client: BrokerClient,
        timers: Timers,
        now_s: Callable[[], float],
    ) -> None:
        """`image_is_newest`: whether what this image does not know does not exist."""
        self._node_id = node_id
        self._image = image
        self._image_is_newest = image_is_newest
        self._writer = writer
        self._client = client
        self._timers = timers
        self._now_s = now_s
        self._queues: dict[int, list[Part]] = {}
        self._busy: set[int] = set()

    def send(
        self,
        transactional_id: str,
        marker: Marker,
        partitions: set[TopicPartition],
        *,
        is_wanted: Callable[[], bool],
        on_done: Callable[[], None],
    ) -> None:
        """Call `on_done` when every partition has the marker, or is gone. Given up when `is_wanted` says no."""
        self._try(
            Sending(transactional_id, marker, partitions, is_wanted=is_wanted, on_done=on_done, now_s=self._now_s())
        )

    def _try(self, sending: Sending) -> None:
        if not sending.is_wanted():
            return
        here, elsewhere = self._find(sending)
        sending.open = len(here) + sum(map(len, elsewhere.values()))
        if not sending.open:
            self._look(sending)
        for at in here:
            self._writer.write(at, sending.marker).on_done(_noting(self, sending, at))
        for node_id, partitions in elsewhere.items():
            self._queues.setdefault(node_id, []).append((sending, partitions))
            if node_id not in self._busy:
                self._busy.add(node_id)
                self._timers.after_ms(0, _flushing(self, node_id))

    def _find(self, sending: Sending) -> tuple[list[TopicPartition], dict[int, list[TopicPartition]]]:
        """Who leads what is left. Partitions that are gone are not; those without a leader have to wait for one."""
        image = self._image()
        knows_all = self._image_is_newest() or self._now_s() - sending.since_s > UNKNOWN_MS_MAX / 1000
        here: list[TopicPartition] = []
        elsewhere: dict[int, list[TopicPartition]] = {}
        for at in sorted(sending.left):
            registration = image.partition(*at)
            if registration is None:
                if knows_all:
                    sending.left.discard(at)
            elif registration.leader == self._node_id:
                here.append(at)
            elif registration.leader >= 0:
                elsewhere.setdefault(registration.leader, []).append(at)
        return here, elsewhere

    # Another node

    def flush(self, node_id: int) -> None:
        """Send all that waits for a node in one request."""
        parts = [part for part in self._queues.pop(node_id, []) if part[0].is_wanted()]
        address = client_address(self._image(), node_id)
        if not parts or address is None:
            self._busy.discard(node_id)
            for sending, partitions in parts:
                for at in partitions:
                    self.note(sending, at, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        request = WriteTxnMarkersRequest(markers=[_wire(sending.marker, partitions) for sending, partitions in parts])
        answer = self._client.send(address, request, timeout_ms=REQUEST_TIMEOUT_MS, channel=CHANNEL)
        answer.on_done(lambda done: self._answered(node_id, parts, done))

    def _answered(self, node_id: int, parts: list[Part], done: Deferred[WriteTxnMarkersResponse]) -> None:
        answers = [] if done.value is None else done.value.markers
        codes = {
            (answer.producer_id, topic.name, partition.partition_index): ErrorCode(partition.error_code)
            for answer in answers
            for topic in answer.topics
            for partition in topic.partitions
        }
        if self._queues.get(node_id):
            self._timers.after_ms(0, _flushing(self, node_id))
        else:
            self._busy.discard(node_id)
        for sending, partitions in parts:
            for at in partitions:
                code = codes.get((sending.marker.producer.producer_id, *at), ErrorCode.NETWORK_EXCEPTION)
                self.note(sending, at, code)

    # What came of it

    def note(self, sending: Sending, at: TopicPartition, code: ErrorCode) -> None:
        sending.open -= 1
        if code in DONE:
            sending.left.discard(at)
        elif code is ErrorCode.INVALID_PRODUCER_EPOCH:
            # A later producer has written there, so nothing of this transaction is open in it any more.
            log.warning(
                "%s: %s has seen a newer producer than the one whose transaction ends", sending.transactional_id, at
            )
            sending.left.discard(at)
        elif code is ErrorCode.TRANSACTION_COORDINATOR_FENCED:
            log.warning("%s: another coordinator has ended its transaction in %s", sending.transactional_id, at)
            sending.is_wanted = _nobody_wants_it
        if not sending.open:
            self._look(sending)

    def _look(self, sending: Sending) -> None:
        """Nobody is being asked: all is done, or it is tried again in a while."""
        if not sending.is_wanted():
            return
        if not sending.left:
            sending.on_done()
            return
        delay_ms = min(RETRY_MS * 2**sending.attempts, RETRY_MS_MAX)
        sending.attempts = min(sending.attempts + 1, 10)
        self._timers.after_ms(delay_ms, lambda: self._try(sending))


def _noting(sender: MarkerSender, sending: Sending, at: TopicPartition) -> Callable[[Deferred[ErrorCode]], None]:
    def note(done: Deferred[ErrorCode]) -> None:
        sender.note(sending, at, ErrorCode.UNKNOWN_SERVER_ERROR if done.value is None else done.value)

    return note


def _flushing(sender: MarkerSender, node_id: int) -> Callable[[], None]:
    return lambda: sender.flush(node_id)


def _nobody_wants_it() -> bool:
    return False


def _wire(marker: Marker, partitions: list[TopicPartition]) -> WritableTxnMarker:
    by_topic: dict[str, list[int]] = {}
    for topic, index in partitions:
        by_topic.setdefault(topic, []).append(index)
    return WritableTxnMarker(
        producer_id=marker.producer.producer_id,
        producer_epoch=marker.producer.epoch,
        transaction_result=marker.commits,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=at) for topic, at in by_topic.items()],
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=marker.version,
    )
