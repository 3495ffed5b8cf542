"""Transactions from asyncio.

    async with producer.transaction():
        await producer.send("out", value)
        await producer.send_offsets(consumer)

What waits for the cluster does so in a thread. A task that is cancelled inside of the block leaves it by an exception,
so its transaction is aborted. What has begun in the thread is seen through: a task that is cancelled meanwhile is told
so after it, for nobody could tell otherwise whether the next transaction may begin.
"""

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TypeVar

from ottla.client.transaction import Transaction

T = TypeVar("T")


class AsyncTransaction:
    """What `AsyncProducer.transaction` returns. It can be left early by `abort`."""

    def __init__(self, *, start: Callable[[], Awaitable[object]], new: Callable[[], Transaction]) -> None:
        self._start = start
        self._new = new
        self._transaction: Transaction | None = None

    async def __aenter__(self) -> "AsyncTransaction":
        await self._start()
        try:
            await in_thread(self._begin)
        except asyncio.CancelledError as cancelled:
            await self.__aexit__(type(cancelled), cancelled, None)
            raise
        return self

    def _begin(self) -> None:
        self._transaction = self._new().__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        if self._transaction is not None:
            await in_thread(self._transaction.__exit__, kind, error, at)

    async def abort(self) -> None:
        """Take it back. Records that still wait to be delivered fail."""
        if self._transaction is not None:
            await in_thread(self._transaction.abort)


async def in_thread(call: Callable[..., T], *arguments: object) -> T:
    """Done when the call is, even if the task is cancelled before that."""
    running = asyncio.ensure_future(asyncio.to_thread(call, *arguments))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        if not running.cancelled():
            running.exception()  # it has been looked at: the cancellation is what counts
        raise
