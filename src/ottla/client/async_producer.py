"""Sending records from asyncio.

    async with AsyncProducer(config) as producer:
        delivery = await producer.send("topic", b"value")     # waits only for room in the buffer
        metadata = await delivery                              # waits for the acknowledgement

There is no thread and no hop to the event loop per record: the producer's one serving thread collects the deliveries,
and wakes the loop once for all that came together. Cancelling a task that waits for a delivery does not take the record
back: it is sent, and another await of the same delivery still gets its result.

With a `transactional_id` records are sent in transactions (`ottla.client.async_transaction`), one at a time.
"""

import asyncio
from collections import deque
from collections.abc import Generator
from types import TracebackType
from typing import Any, Self

from ottla.client.async_consumer import AsyncConsumer
from ottla.client.async_transaction import AsyncTransaction, in_thread
from ottla.client.cluster import Offsets
from ottla.client.delivery import DeliveryFuture, Outcomes, RecordMetadata
from ottla.client.errors import UndeliveredError
from ottla.client.librdkafka import logger
from ottla.client.producer import Headers, Producer, Record
from ottla.client.producer_metrics import ProducerMetrics
from ottla.client.settings import ProducerConfig, Servers

ROOM_RETRY_S = 0.01
"""When to try a full buffer again, if no delivery is reported before that."""


class AsyncDelivery(DeliveryFuture):
    """A DeliveryFuture that wakes its awaiters through the hub, many at a time."""

    __slots__ = ("_hub", "_waiters")

    def __init__(self, topic: str, outcomes: Outcomes, hub: "_Hub") -> None:
        super().__init__(topic, outcomes)
        self._hub = hub
        self._waiters: list[asyncio.Future[None]] | None = None

    def __call__(self, error: Any, message: Any) -> None:
        super().__call__(error, message)
        self._hub.push(self)

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        if not self._done:
            # Only the loop's thread touches `_waiters`, here and in `wake`, so none is missed.
            waiter = self._hub.loop.create_future()
            self._waiters = [*(self._waiters or ()), waiter]
            yield from waiter
        return self.result(0)

    def wake(self) -> None:
        for waiter in self._waiters or ():
            if not waiter.done():
                waiter.set_result(None)
        self._waiters = None


class _Hub:
    """Carries finished deliveries from the serving thread to the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._finished: deque[AsyncDelivery] = deque()
        self._scheduled = False
        self._progress: asyncio.Future[None] | None = None

    def push(self, delivery: AsyncDelivery) -> None:
        """In the serving thread. `_drain` clears the flag before it looks, so nothing is left lying."""
        self._finished.append(delivery)
        if not self._scheduled:
            self._scheduled = True
            try:
                self.loop.call_soon_threadsafe(self._drain)
            except RuntimeError:
                logger.debug("a delivery came after its event loop was closed")

    def _drain(self) -> None:
        self._scheduled = False
        while self._finished:
            self._finished.popleft().wake()
        if self._progress is not None and not self._progress.done():
            self._progress.set_result(None)

    async def progress(self, timeout_s: float) -> None:
        """Return when deliveries have come in, or after `timeout_s`."""
        if self._progress is None or self._progress.done():
            self._progress = self.loop.create_future()
        await asyncio.wait((self._progress,), timeout=timeout_s)


class AsyncProducer:
    """See the head of the module. To be made and used inside one running event loop."""

    def __init__(self, config: ProducerConfig | None = None, *, bootstrap_servers: Servers | None = None) -> None:
        self._producer = Producer(config, bootstrap_servers=bootstrap_servers)
        self._hub: _Hub | None = None

    @property
    def config(self) -> ProducerConfig:
        return self._producer.config

    async def start(self) -> Self:
        """With a transactional id it waits for the cluster."""
        await self._started()
        return self

    async def _started(self) -> _Hub:
        if self._hub is None:
            hub = _Hub(asyncio.get_running_loop())
            if self.config.transactional_id is None:
                self._producer.start()
            else:
                await asyncio.to_thread(self._producer.start)
            self._hub = self._hub or hub
        return self._hub

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> AsyncDelivery:
        """Put a record into the buffer, waiting while that is full; await what it returns for the acknowledgement."""
        delivery = AsyncDelivery(topic, self._producer.outcomes, self._hub or await self._started())
        record = self._producer.record(topic, value, key, headers, partition, timestamp_ms)
        if not self._producer.offer(record, delivery):
            await self._offer_until_there_is_room(record, delivery)
        return delivery

    async def send_and_wait(self, topic: str, value: Any = None, key: Any = None, **options: Any) -> RecordMetadata:
        return await (await self.send(topic, value, key, **options))

    async def _offer_until_there_is_room(self, record: Record, delivery: AsyncDelivery) -> None:
        hub = await self._started()
        deadline = hub.loop.time() + self.config.max_block_ms / 1000
        while (left := deadline - hub.loop.time()) > 0:
            await hub.progress(min(left, ROOM_RETRY_S))
            if self._producer.offer(record, delivery):
                return
        raise self._producer.buffer_full()

    # Transactions

    def transaction(self) -> AsyncTransaction:
        """`async with producer.transaction(): …`: as Producer.transaction. Tasks may send at the same time, to the
        one that is open."""
        self._producer.require_transactional()
        return AsyncTransaction(start=self.start, new=self._producer.transaction)

    async def send_offsets(self, consumer: AsyncConsumer, offsets: Offsets | None = None) -> None:
        """As Producer.send_offsets."""
        self._producer.require_transactional()
        of_group = await consumer.transactional_offsets(offsets)
        await in_thread(self._producer.send_offsets_of, *of_group)

    async def flush(self, timeout_s: float | None = None) -> None:
        await asyncio.to_thread(self._producer.flush, timeout_s)

    async def close(self, timeout_s: float | None = None) -> None:
        """As Producer.close. It finishes even if the task that waits for it is cancelled."""
        await asyncio.shield(asyncio.to_thread(self._producer.close, timeout_s))

    def metrics(self) -> ProducerMetrics:
        return self._producer.metrics()

    def __len__(self) -> int:
        return len(self._producer)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        try:
            await self.close()
        except UndeliveredError as undelivered:
            if error is None:
                raise
            logger.error("%s", undelivered)
