"""A queue that needs no set-up: a directory, or a topic of a cluster, with the same few calls.

    with ottla.open("./queue", partitions=4) as queue:
        at = queue.enqueue("client-7", {"temperature": 21.5})          # on disk when it returns
        with queue.consumer("billing") as consumer:
            for message in consumer:
                ...

Messages of one client id are in one partition, in order. The partition is chosen by the hash that every Kafka client
uses, so it is the same in both modes and for a producer in another language. Any number of processes may open the same
directory; see `ottla.client.queue_directory` for who serves it and what happens when that one ends.
"""

import itertools
import os
import threading
import time
import weakref
from collections.abc import Iterable
from contextlib import suppress
from types import TracebackType
from typing import Any, NamedTuple, Self

from ottla.client.admin import Admin
from ottla.client.delivery import DeliveryFuture
from ottla.client.errors import (
    ClosedError,
    DeliveryError,
    QueueUnavailableError,
    TimedOutError,
    TopicExistsError,
    UndeliveredError,
    UnreachableError,
)
from ottla.client.queue_consumer import QueueConsumer
from ottla.client.queue_place import ClusterPlace, Place
from ottla.client.queue_target import QueueMode, QueueTargets, parse_target
from ottla.client.queue_writer import QUIET, Writer
from ottla.client.settings import AdminConfig, Servers

GRACE_S = 5.0
"""How much longer than a delivery may take its waiter waits: only a node that died without a word needs it."""
MANY = 10_000
"""How many messages `enqueue_many` lets wait for their acknowledgements at once."""

Target = str | os.PathLike[str]


class Enqueued(NamedTuple):
    """Where a message is."""

    partition: int
    offset: int


def open_queue(
    target: Target = "./queue",
    *,
    mode: QueueMode | None = None,
    bootstrap_servers: Servers | None = None,
    topic: str = "queue",
    partitions: int = 4,
    patience_s: float = 30.0,
) -> "Queue":
    """Open a queue: a directory, or `kafka://host:port`. This is `ottla.open`.

    With a directory and `bootstrap_servers`, `mode` says which to use, and `Queue.switch` changes it. `partitions` is
    for a queue that is made now; one that exists keeps its own. `patience_s`: how long a call waits when nobody serves
    the queue, before QueueUnavailableError.
    """
    targets, default_mode = parse_target(target, bootstrap_servers=bootstrap_servers, topic=topic)
    return Queue(targets, mode or default_mode, partitions=partitions, patience_s=patience_s)


class _Open:
    """What must be closed when a queue is: kept apart from it, so that a queue that nobody uses can be collected."""

    def __init__(self, place: Place, writer: Writer) -> None:
        self.place = place
        self.writer = writer
        self.writes_locally = place.hosting
        self.closed = False
        self.retired: list[Place] = []
        """Places the queue has left while consumers still read there."""
        self.consumers: weakref.WeakSet[QueueConsumer] = weakref.WeakSet()
        self._lock = threading.Lock()

    def move(self, place: Place, writer: Writer) -> None:
        with self._lock:
            self.retired.append(self.place)
            self.place, self.writer, self.writes_locally = place, writer, place.hosting

    def leave_unused(self) -> None:
        """Close the places that neither the queue nor a consumer needs any more."""
        with self._lock:
            needed = [self.place, *(consumer.place for consumer in self.consumers if not consumer.closed)]
            unused = [place for place in self.retired if place not in needed]
            self.retired = [place for place in self.retired if place in needed]
        for place in unused:
            place.close()

    def close(self, pid: int) -> None:
        """In this order: what was enqueued is acknowledged and what is done is committed while there is a node."""
        if pid != os.getpid():
            return
        self.closed = True
        try:
            self.writer.close()
            for consumer in list(self.consumers):
                consumer.close()
        finally:
            for place in (*self.retired, self.place):
                place.close()


class Queue:
    """See the head of the module. Made by `ottla.open`. May be shared by threads."""

    def __init__(self, targets: QueueTargets, mode: QueueMode, *, partitions: int, patience_s: float) -> None:
        self._targets = targets
        self._partitions_wanted = partitions
        self._patience_s = patience_s
        self._switching = threading.Lock()
        place = self._enter(targets, mode)
        self._open = _Open(place, self._writer(place))
        self._close = weakref.finalize(self, self._open.close, os.getpid())

    # What it is

    @property
    def mode(self) -> QueueMode:
        return self._open.place.mode

    @property
    def place(self) -> Place:
        return self._open.place

    @property
    def topic(self) -> str:
        return self._targets.topic

    @property
    def bootstrap_servers(self) -> str:
        """Where any Kafka client finds this queue."""
        return self._open.place.bootstrap_servers

    @property
    def hosting(self) -> bool:
        """Whether this process serves the queue to the others."""
        return self._open.place.hosting

    @property
    def partitions(self) -> int:
        with Admin(bootstrap_servers=self.bootstrap_servers) as admin:
            return len(admin.describe_topic(self.topic).partitions)

    # Writing

    def enqueue(self, client_id: Any, data: Any) -> Enqueued:
        """Add one message; it is on disk when this returns. Text, bytes, or anything JSON can say."""
        return self._wait(self.enqueue_nowait(client_id, data))

    def enqueue_nowait(self, client_id: Any, data: Any) -> DeliveryFuture:
        """Add one message without waiting; `.result()` of what it returns has partition and offset."""
        while True:
            opened = self._open
            if opened.writes_locally is not opened.place.hosting:
                self._change_writer()
            writer = opened.writer
            try:
                return writer.write(client_id, data)
            except ClosedError:
                if writer is opened.writer:
                    raise  # else the queue was switched between the two lines

    def enqueue_many(self, items: Iterable[tuple[Any, Any]]) -> list[Enqueued]:
        """Add many `(client_id, data)`, batched; all are on disk when this returns, and one result for each in order.

        If it raises, some may have been added and others not.
        """
        enqueued: list[Enqueued] = []
        remaining = iter(items)
        while pending := [self.enqueue_nowait(*item) for item in itertools.islice(remaining, MANY)]:
            enqueued += [self._wait(delivery) for delivery in pending]
        return enqueued

    def flush(self) -> None:
        """Wait until all that was enqueued is on disk."""
        self._open.writer.flush()

    def _wait(self, delivery: DeliveryFuture) -> Enqueued:
        try:
            written = delivery.result(self._patience_s + GRACE_S)
        except (DeliveryError, TimedOutError) as error:
            raise QueueUnavailableError(f"the message was not acknowledged: {error}", code=error.code) from error
        return Enqueued(written.partition, written.offset)

    # Reading

    def consumer(self, group: str = "default", *, auto_ack: bool = True, max_records: int = 500) -> QueueConsumer:
        """A reader that shares the partitions with the others of its group."""
        consumer = QueueConsumer(self, group, auto_ack=auto_ack, max_records=max_records)
        self._open.consumers.add(consumer)
        return consumer

    def consumer_left(self) -> None:
        """A consumer was closed, or has followed the queue to another place."""
        self._open.leave_unused()

    # Moving

    def switch(self, to: QueueMode | Target) -> None:
        """Go on in the other mode, or in another directory or cluster.

        What is enqueued from now on goes there; what was enqueued before is acknowledged in the old place, where the
        consumers finish it before they follow.
        """
        with self._switching:
            targets, mode = self._resolve(to)
            if (targets, mode) == (self._targets, self.mode):
                return
            place = self._enter(targets, mode)
            old_writer = self._open.writer
            self._targets = targets
            self._open.move(place, self._writer(place))
            old_writer.close(self._patience_s)
            self._open.leave_unused()

    def _resolve(self, to: QueueMode | Target) -> tuple[QueueTargets, QueueMode]:
        if isinstance(to, QueueMode):
            return self._targets, to
        return parse_target(to, bootstrap_servers=None, topic=self.topic)

    # Life cycle

    def close(self) -> None:
        """Wait until all is on disk, close the consumers, and leave; another process that has the queue open goes on
        serving it."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # Inside

    def _enter(self, targets: QueueTargets, mode: QueueMode) -> Place:
        targets.require(mode)
        place = self._directory_place(targets) if mode is QueueMode.FILE else ClusterPlace(targets.servers or "")
        try:
            self._make_topic(place, targets.topic)
        except BaseException:
            place.close()
            raise
        return place

    def _directory_place(self, targets: QueueTargets) -> Place:
        # Imported here, as it brings a whole broker with it, which a program that uses a cluster does not need.
        from ottla.client.queue_directory import DirectoryPlace

        assert targets.directory is not None
        return DirectoryPlace(targets.directory, partitions=self._partitions_wanted, patience_s=self._patience_s)

    def _make_topic(self, place: Place, topic: str) -> None:
        patience_ms = max(int(self._patience_s * 1000), 1)
        config = AdminConfig(
            bootstrap_servers=place.bootstrap_servers, request_timeout_ms=min(5_000, patience_ms), extra=QUIET
        )
        deadline = time.monotonic() + self._patience_s
        with Admin(config) as admin:
            while True:
                try:
                    admin.create_topic(topic, partitions=self._partitions_wanted)
                    return
                except TopicExistsError:
                    return
                except (UnreachableError, TimedOutError) as error:
                    if time.monotonic() > deadline:
                        raise QueueUnavailableError(f"nobody serves {place.bootstrap_servers}: {error}") from error

    def _writer(self, place: Place) -> Writer:
        return place.writer(self._targets.topic, patience_s=self._patience_s)

    def _change_writer(self) -> None:
        """This process has become the host, or is it no more. What was written the old way comes first."""
        with self._switching:
            opened = self._open
            if opened.closed:
                raise ClosedError("the queue was closed")
            hosting = opened.place.hosting
            if opened.writes_locally is not hosting:
                old, new = opened.writer, self._writer(opened.place)
                with suppress(UndeliveredError):  # those who wait for these messages are told by their futures
                    old.flush(self._patience_s)
                opened.writer, opened.writes_locally = new, hosting
                with suppress(UndeliveredError):
                    old.close(0)
