"""Dead letters: which topics have some, what they say, and their way back.

Redriving is what `ottla dlq redrive` does: a stream that writes each letter back to its topic, exactly once. It is a
blocking call of librdkafka, so it has a thread.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from ottla.console.searching import Search, Seen, bounds_of
from ottla.console.source import Source
from ottla.errors import BrokerError
from ottla.http.errors import CONFLICT, HttpError
from ottla.stream.dead_letter import SUFFIX, DeadLetter, parse
from ottla.stream.redrive import Redriven, redrive, redrive_group

SHOWN_MAX = 100
COUNTED_MAX = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterTopic:
    topic: str
    waiting: int
    """Since the last redrive; no more than COUNTED_MAX are counted."""
    total: int
    """Offsets of all that the topic holds: those that were redriven, and holes, included."""


class Letters:
    def __init__(self, source: Source, bootstrap: str) -> None:
        self._source = source
        self._bootstrap = bootstrap
        self._under_way: set[str] = set()

    async def topics(self) -> list[LetterTopic]:
        names = [each["topic"] for each in await self._source.api.topics.all() if each["topic"].endswith(SUFFIX)]
        return [await self._topic(name) for name in names]

    async def _topic(self, topic: str) -> LetterTopic:
        return LetterTopic(
            topic=topic, waiting=await self._count(topic, COUNTED_MAX), total=_total(await self._bounds(topic))
        )

    async def _count(self, topic: str, at_most: int | None = None) -> int:
        """Records, and not offsets: transactions leave holes."""
        search = Search(
            self._source.api.consuming, topic, await self._waiting(topic), backwards=False, matches=lambda _: False
        )
        while not search.is_over and (at_most is None or search.looked < at_most):
            await search.more(1)
        return search.looked

    async def _bounds(self, topic: str) -> dict[int, tuple[int, int]]:
        partitions = range(await self._source.api.partition_count(topic))
        return await bounds_of(self._source.api.consuming, topic, list(partitions))

    async def _waiting(self, topic: str) -> dict[int, tuple[int, int]]:
        bounds = await self._bounds(topic)
        try:
            done = await self._source.api.groups.committed(redrive_group(topic), None)
        except BrokerError:
            done = {}
        starts = {at.partition: offset for at, offset in done.items() if at.topic == topic}
        return {index: (max(start, starts.get(index, start)), end) for index, (start, end) in bounds.items()}

    async def waiting(self, topic: str) -> list[tuple[Seen, DeadLetter]]:
        """The oldest, which are redriven first."""
        search = Search(self._source.api.consuming, topic, await self._waiting(topic), backwards=False, matches=None)
        found = [(record, parse(record.headers)) for record in await search.more(SHOWN_MAX)]
        return [(record, letter) for record, letter in found if letter is not None]

    async def redrive(self, topic: str) -> Redriven:
        """All that wait now."""
        if topic in self._under_way:
            raise HttpError(CONFLICT, "under_way", f"The letters of {topic} are being redriven already.")
        self._under_way.add(topic)
        try:
            count = await self._count(topic)
            return await asyncio.to_thread(redrive, topic, count, bootstrap_servers=self._bootstrap)
        finally:
            self._under_way.discard(topic)


def _total(bounds: dict[int, tuple[int, int]]) -> int:
    return sum(max(0, end - start) for start, end in bounds.values())
