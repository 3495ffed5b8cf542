"""Reading records from asyncio.

One thread of its own does what waits, one call after the other; the event loop only takes what is there. So a `poll`
that is cancelled loses nothing: what its thread still fetches stays in the buffer for the next one, and does not count
as handed out. Callbacks of a rebalance run in that thread, with the plain Consumer, and must not touch the loop.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

from ottla.client.cluster import Offsets, PartitionLag
from ottla.client.consumer import Consumer, OnRebalance, Partition
from ottla.client.errors import ClosedError
from ottla.client.message import Message
from ottla.client.settings import ConsumerConfig, Servers
from ottla.types import TopicPartition

TURN_S = 10.0
"""How long one fetch of a loop over messages waits; then it waits again."""

P = ParamSpec("P")
T = TypeVar("T")


class AsyncConsumer:
    """See the head of the module; methods mean what they mean on Consumer."""

    def __init__(
        self,
        config: ConsumerConfig | None = None,
        *,
        bootstrap_servers: Servers | None = None,
        group_id: str | None = None,
    ) -> None:
        self._consumer = Consumer(config, bootstrap_servers=bootstrap_servers, group_id=group_id)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="ottla-consumer")
        self._filling: Future[bool] | None = None
        """A fetch under way, perhaps left by a task that was cancelled. Nobody takes from the buffer meanwhile."""
        self._closed = False

    @property
    def config(self) -> ConsumerConfig:
        return self._consumer.config

    async def subscribe(
        self,
        topics: str | Iterable[str] = (),
        *,
        pattern: str | None = None,
        on_assign: OnRebalance | None = None,
        on_revoke: OnRebalance | None = None,
        on_lost: OnRebalance | None = None,
    ) -> None:
        await self._run(
            self._consumer.subscribe,
            topics,
            pattern=pattern,
            on_assign=on_assign,
            on_revoke=on_revoke,
            on_lost=on_lost,
        )

    async def unsubscribe(self) -> None:
        await self._run(self._consumer.unsubscribe)

    async def assign(self, partitions: Iterable[Partition] | Offsets) -> None:
        await self._run(self._consumer.assign, partitions)

    async def assignment(self) -> set[TopicPartition]:
        return await self._run(self._consumer.assignment)

    async def poll(self, timeout_ms: float = 1_000, max_records: int | None = None) -> list[Message]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        while await self._fill(deadline - loop.time(), max_records):
            if messages := self._take(max_records):
                return messages
        return []

    async def messages(self) -> AsyncIterator[Message]:
        """One message after the other, without end."""
        while not self._closed:
            await self._fill(TURN_S)
            for message in self._take(1):
                yield message

    def __aiter__(self) -> AsyncIterator[Message]:
        return self.messages()

    async def _fill(self, timeout_s: float, max_records: int | None = None) -> bool:
        if self._filling is None:
            if self._consumer.has_buffered:
                return True
            self._filling = self._submit(self._consumer.fill, timeout_s, max_records)
        filling = self._filling
        try:
            # Shielded: when this task is cancelled, the fetch goes on and the next task waits for it.
            return await asyncio.shield(asyncio.wrap_future(filling))
        finally:
            if filling.done() and self._filling is filling:
                self._filling = None

    def _take(self, max_records: int | None) -> list[Message]:
        # Another task may have started the next fetch between the end of the last one and now.
        return self._consumer.take(max_records) if self._filling is None else []

    async def commit(self, offsets: Offsets | None = None) -> None:
        await self._run(self._consumer.commit, offsets)

    async def committed(self, partitions: Iterable[Partition] | None = None) -> dict[TopicPartition, int | None]:
        return await self._run(self._consumer.committed, partitions)

    async def transactional_offsets(self, offsets: Offsets | None = None) -> tuple[list[Any], Any]:
        """For `AsyncProducer.send_offsets`."""
        return await self._run(self._consumer.transactional_offsets, offsets)

    async def rewind(self, messages: Iterable[Message]) -> None:
        await self._run(self._consumer.rewind, messages)

    async def position(self, partition: Partition) -> int | None:
        return await self._run(self._consumer.position, partition)

    async def seek(self, partition: Partition, offset: int) -> None:
        await self._run(self._consumer.seek, partition, offset)

    async def seek_to_beginning(self, *partitions: Partition) -> None:
        await self._run(self._consumer.seek_to_beginning, *partitions)

    async def seek_to_end(self, *partitions: Partition) -> None:
        await self._run(self._consumer.seek_to_end, *partitions)

    async def seek_to_time(self, timestamp: int, *partitions: Partition) -> None:
        await self._run(self._consumer.seek_to_time, timestamp, *partitions)

    async def pause(self, *partitions: Partition) -> None:
        await self._run(self._consumer.pause, *partitions)

    async def resume(self, *partitions: Partition) -> None:
        await self._run(self._consumer.resume, *partitions)

    async def lag(self) -> list[PartitionLag]:
        return await self._run(self._consumer.lag)

    async def close(self, *, last_done: bool = True) -> None:
        """As Consumer.close. It finishes even if the task that waits for it is cancelled."""
        if self._closed:
            return
        closing = self._run(self._consumer.close, last_done=last_done)
        self._closed = True
        await closing
        self._thread.shutdown(wait=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close(last_done=error is None)

    def _run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        """In the thread, as soon as a fetch that is under way has been ended. Cancelling does not stop it."""
        if self._filling is not None and not self._filling.done():
            self._consumer.wakeup()
        return asyncio.shield(asyncio.wrap_future(self._submit(call, *args, **kwargs)))

    def _submit(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        if self._closed:
            raise ClosedError("the consumer was closed")
        return self._thread.submit(call, *args, **kwargs)
