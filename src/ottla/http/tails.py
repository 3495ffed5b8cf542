"""Live tails: what is written to a topic, as it is committed, for as long as somebody looks.

Each partition has a reader that waits at its end. They share a small queue: a client that does not take what it is sent
holds the readers back, and costs the queue and one answer per partition, no more.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from ottla.errors import BrokerError, ErrorCode
from ottla.http.consume import EARLIEST, Consuming
from ottla.http.errors import TOO_MANY, HttpError, of_broker
from ottla.http.filters import Filter
from ottla.http.messages import Encoding, Received, received

QUEUE_MAX = 500
FETCH_LIMIT = 500
WAIT_MS = 5_000
PULSE_S = 15.0
"""With nothing to show, a sign of life is sent this often: proxies close what is silent."""


class Tails:
    def __init__(self, consuming: Consuming, streams_max: int) -> None:
        self._consuming = consuming
        self._streams_max = streams_max
        self.open = 0

    async def starts(self, topic: str, partitions: int, offset: str) -> dict[int, int]:
        """Where each partition is read from. HttpError where that can't be: before anything is sent."""
        if self.open >= self._streams_max:
            raise self._too_many()
        return {index: await self._consuming.resolve(topic, index, offset) for index in range(partitions)}

    def _too_many(self) -> HttpError:
        message = f"{self.open} live tails are open already; {self._streams_max} is the most."
        return HttpError(TOO_MANY, "too_many_streams", message)

    async def follow(
        self, topic: str, starts: dict[int, int], shows: Filter, encoding: Encoding
    ) -> AsyncIterator[Received | HttpError | None]:
        """Messages; None as a sign of life, and first of all; an error at the end, if there is one."""
        if self.open >= self._streams_max:
            yield self._too_many()  # others were quicker
            return
        queue: asyncio.Queue[Received | HttpError] = asyncio.Queue(QUEUE_MAX)
        self.open += 1
        readers = [
            asyncio.create_task(self._read(topic, index, at, shows, encoding, queue)) for index, at in starts.items()
        ]
        try:
            yield None
            while True:
                try:
                    async with asyncio.timeout(PULSE_S):
                        item = await queue.get()
                except TimeoutError:
                    yield None
                    continue
                yield item
                if isinstance(item, HttpError):
                    return
        finally:
            self.open -= 1
            for reader in readers:
                reader.cancel()

    async def _read(
        self,
        topic: str,
        partition: int,
        at: int,
        shows: Filter,
        encoding: Encoding,
        queue: asyncio.Queue[Received | HttpError],
    ) -> None:
        try:
            while True:
                try:
                    fetched = await self._consuming.fetch(topic, partition, at, FETCH_LIMIT, WAIT_MS)
                except BrokerError as error:
                    if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                        raise
                    at = await self._consuming.offset_at(topic, partition, EARLIEST)
                    continue
                for after, record in fetched.read():
                    at = after
                    if record is not None and shows(record):
                        await queue.put(received(record, topic, partition, encoding))
                await asyncio.sleep(0)
        except BrokerError as error:
            await queue.put(of_broker(error))
