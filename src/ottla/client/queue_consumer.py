"""Reading a queue, with offsets that are kept for each group.

Consumers with the same group, in any number of threads and processes, split the queue's partitions among themselves;
when one ends, the others take over its partitions where it stopped. With `auto_ack` a message is done when the program
asks for the next; without it, when the program says so with `ack`, in any order.

When the queue is switched to another place, a consumer first reads what is left in the old one, until the whole group
has, so that no client's messages overtake each other; then it follows.
"""

import json
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Protocol, Self

from ottla.client.ack_tracker import AckTracker
from ottla.client.admin import Admin
from ottla.client.cluster import EARLIEST, LATEST, PartitionLag
from ottla.client.consumer import Consumer
from ottla.client.errors import ClientError, CommitFailedError, QueueError
from ottla.client.librdkafka import logger
from ottla.client.message import Message
from ottla.client.queue_place import Place
from ottla.client.queue_writer import QUIET
from ottla.client.settings import ConsumerConfig, OffsetResetPolicy
from ottla.types import TopicPartition

SESSION_MS = 10_000
"""How soon the partitions of a consumer that was killed go to others."""
COMMIT_MS = 1_000
"""How often what is done is committed in the background; what a crash repeats is at most that much."""

TURN_MS = 500
"""How long a loop without end waits at a time before it looks whether the queue has moved."""


class QueueMessage:
    """One entry of a queue."""

    __slots__ = ("client_id", "data", "offset", "partition", "timestamp")

    def __init__(self, client_id: str, data: bytes, partition: int, offset: int, timestamp: int) -> None:
        self.client_id = client_id
        self.data = data
        self.partition = partition
        self.offset = offset
        self.timestamp = timestamp
        """Milliseconds since 1970."""

    def text(self) -> str:
        return self.data.decode()

    def json(self) -> Any:
        return json.loads(self.data)

    def __repr__(self) -> str:
        return f"QueueMessage({self.client_id!r}, {self.data!r:.60}, partition={self.partition}, offset={self.offset})"


class Source(Protocol):
    """What a consumer needs to know of its queue."""

    @property
    def place(self) -> Place:
        """Where the queue is now."""

    @property
    def topic(self) -> str: ...

    def consumer_left(self) -> None:
        """A consumer was closed, or has followed the queue to another place."""


class QueueConsumer:
    """See the head of the module. Made by `Queue.consumer`; belongs to one thread at a time."""

    def __init__(self, queue: Source, group: str, *, auto_ack: bool, max_records: int) -> None:
        self.group = group
        self.auto_ack = auto_ack
        self._queue = queue
        self._max_records = max_records
        self._tracker = AckTracker()
        self._committed_at = time.monotonic()
        self.closed = False
        self._enter()

    # Reading

    def poll(self, timeout_ms: float = 1_000, max_records: int | None = None) -> list[QueueMessage]:
        """What has come, at once if there is something, else after waiting for at most `timeout_ms`."""
        self._commit_from_time_to_time()
        messages = self._consumer.poll(timeout_ms, max_records)
        if not messages:
            self._follow()
        return [self._hand_out(message) for message in messages]

    def receive(self, timeout_ms: float = 1_000) -> QueueMessage | None:
        """The next message, or None if none came in time."""
        return next(iter(self.poll(timeout_ms, 1)), None)

    def messages(self, timeout_ms: float | None = None) -> Iterator[QueueMessage]:
        """One message after the other. Ends when none came for `timeout_ms`; never, if None."""
        while True:
            self._commit_from_time_to_time()
            for message in self._consumer.messages(TURN_MS if timeout_ms is None else timeout_ms):
                yield self._hand_out(message)
                self._commit_from_time_to_time()
            if not self._follow() and timeout_ms is not None:
                return

    def __iter__(self) -> Iterator[QueueMessage]:
        return self.messages()

    def _hand_out(self, message: Message) -> QueueMessage:
        if not self.auto_ack:
            self._tracker.handed_out(message.topic_partition, message.offset)
        client_id = "" if message.key is None else message.key.decode(errors="replace")
        return QueueMessage(client_id, message.value or b"", message.partition, message.offset, message.timestamp)

    # Acknowledging

    def ack(self, *messages: QueueMessage) -> None:
        """These are done. Committed soon, in the background; see `commit`."""
        if self.auto_ack:
            raise QueueError("this consumer acknowledges by itself; make it with auto_ack=False")
        for message in messages:
            self._tracker.ack(TopicPartition(self._topic, message.partition), message.offset)

    def commit(self) -> None:
        """Store what is done; when this returns, no crash makes the group read it again."""
        if self.auto_ack:
            self._consumer.commit()
        elif moved := self._tracker.take_moved():
            self._consumer.commit(moved)
        self._committed_at = time.monotonic()

    def _commit_from_time_to_time(self) -> None:
        if self.auto_ack or time.monotonic() - self._committed_at < COMMIT_MS / 1000:
            return
        self._committed_at = time.monotonic()
        if moved := self._tracker.take_moved():
            self._consumer.commit_async(moved)

    @property
    def unacked(self) -> int:
        """Messages handed out and not acknowledged yet."""
        return self._tracker.open_count()

    def lag(self) -> list[PartitionLag]:
        """How far behind this consumer is in each of its partitions, in messages and in seconds."""
        return self._consumer.lag()

    # Life cycle

    def close(self, *, last_done: bool = True) -> None:
        """Commit what is done and let the others have the partitions."""
        if not self.closed:
            self.closed = True
            self._leave(last_done=last_done)
            self._queue.consumer_left()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close(last_done=error is None)

    # Inside

    def _enter(self) -> None:
        self.place = self._queue.place
        self._topic = self._queue.topic
        self._consumer = Consumer(
            ConsumerConfig(
                bootstrap_servers=self.place.bootstrap_servers,
                client_id="ottla-queue",
                group_id=self.group,
                auto_offset_reset=OffsetResetPolicy.EARLIEST,
                enable_auto_commit=self.auto_ack,
                auto_commit_interval_ms=COMMIT_MS,
                max_poll_records=self._max_records,
                session_timeout_ms=SESSION_MS,
                heartbeat_interval_ms=SESSION_MS // 5,
                extra=QUIET,
            )
        )
        self._consumer.subscribe(self._topic, on_revoke=self._revoked, on_lost=self._lost)

    def _leave(self, *, last_done: bool = True) -> None:
        try:
            if not self.auto_ack:
                self.commit()
        finally:
            self._consumer.close(last_done=last_done)

    def _follow(self) -> bool:
        """If the queue has moved and nothing is left here, move too."""
        if self.place is self._queue.place or not self._drained():
            return False
        self._leave()
        self._tracker = AckTracker()
        self._enter()
        self._queue.consumer_left()
        return True

    def _drained(self) -> bool:
        """Whether the whole group has finished what is in the old place."""
        try:
            self.commit()
            with Admin(bootstrap_servers=self.place.bootstrap_servers) as admin:
                done = admin.group_offsets(self.group)
                starts, ends = (admin.topic_offsets(self._topic, where) for where in (EARLIEST, LATEST))
        except CommitFailedError:
            return False
        except ClientError as error:
            logger.warning("what is left in %s can't be read now: %s", self.place.bootstrap_servers, error)
            return True
        at_least = {at: done[at].offset if at in done else start.offset for at, start in starts.items()}
        return all(at_least[at] >= end.offset for at, end in ends.items())

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if not self.auto_ack:
            try:
                self.commit()
            except CommitFailedError as error:
                logger.warning("%s", error)
        self._lost(consumer, partitions)

    def _lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        for at in partitions:
            self._tracker.drop(at)
