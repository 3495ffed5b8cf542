"""Looking through a topic: forwards from a place, or backwards from its end, all partitions merged by time.

Each partition is a lane that is read in pieces; the lanes are merged as they are read. A search reads a bounded number
of records at a time and says how many it has looked at, so that it neither hides that it stopped nor runs for ever.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from ottla.errors import BrokerError, ErrorCode
from ottla.http.consume import EARLIEST, LATEST, Consuming
from ottla.http.filters import Filter, read_filters
from ottla.protocol.record import Record

KEPT_BYTES_MAX = 16 * 1024
"""Of a value in a list; the page of a single message has all of it."""
LOOKED_MAX = 50_000
"""Records that one step of a search looks at."""
STEP_S = 8.0
PIECE = 2_000
"""Records of a lane that are read at a time by a search."""
TURN = 250
"""Then others have their turn."""
LANES_AT_ONCE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A record, of which no more is kept than is shown."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    value_bytes: int
    """How long the value is in truth."""


def seen(record: Record, topic: str, partition: int, *, keep: int = KEPT_BYTES_MAX) -> Seen:
    value = record.value
    return Seen(
        topic=topic,
        partition=partition,
        offset=record.offset,
        timestamp_ms=record.timestamp_ms,
        key=None if record.key is None else bytes(record.key[:keep]),
        value=None if value is None else bytes(value[:keep]),
        headers=tuple((name, None if content is None else bytes(content[:keep])) for name, content in record.headers),
        value_bytes=0 if value is None else len(value),
    )


def matcher(query: str) -> Filter | None:
    """`key:user-1`, `header:trace`, `header:trace:af01`, `$.user.id:7`, or text anywhere. HttpError if it is wrong."""
    query = query.strip()
    if not query:
        return None
    if query.startswith("$"):
        return read_filters([], [], [query])
    if query.startswith("key:"):
        return read_filters([query.removeprefix("key:")], [], [])
    if query.startswith("header:"):
        return read_filters([], [query.removeprefix("header:")], [])
    return _containing(query)


def _containing(text: str) -> Filter:
    wanted = text.lower().encode()

    def check(record: Record) -> bool:
        if wanted in (record.value or b"").lower() or wanted in (record.key or b"").lower():
            return True
        return any(wanted in name.lower().encode() or wanted in (data or b"").lower() for name, data in record.headers)

    return check


class Lane:
    """One partition between two offsets, read in pieces from one end."""

    def __init__(self, partition: int, start: int, end: int, *, backwards: bool) -> None:
        self.partition = partition
        self.start = start
        self.end = end
        self.backwards = backwards
        self.found: deque[Seen] = deque()
        """Read, and not shown yet; the next one first."""

    @property
    def is_read(self) -> bool:
        return self.start >= self.end

    @property
    def is_over(self) -> bool:
        return self.is_read and not self.found

    def next_piece(self, count: int) -> tuple[int, int]:
        if self.backwards:
            return max(self.start, self.end - count), self.end
        return self.start, min(self.end, self.start + count)

    def take(self, piece: tuple[int, int], records: list[Seen]) -> None:
        if self.backwards:
            self.end = piece[0]
            self.found.extend(reversed(records))
        else:
            self.start = piece[1]
            self.found.extend(records)


class Search:
    def __init__(
        self,
        consuming: Consuming,
        topic: str,
        bounds: Mapping[int, tuple[int, int]],
        *,
        backwards: bool,
        matches: Filter | None,
    ) -> None:
        self._consuming = consuming
        self._topic = topic
        self._matches = matches
        self._backwards = backwards
        self._lanes = [Lane(index, *ends, backwards=backwards) for index, ends in sorted(bounds.items())]
        self._turns = asyncio.Semaphore(LANES_AT_ONCE)
        self.looked = 0
        self.total = sum(max(0, end - start) for start, end in bounds.values())

    @property
    def is_over(self) -> bool:
        return all(lane.is_over for lane in self._lanes)

    async def more(self, limit: int) -> list[Seen]:
        """The next ones; fewer than `limit` if there are no more, or after looking at very many."""
        shown: list[Seen] = []
        upto = self.looked + LOOKED_MAX
        loop = asyncio.get_running_loop()
        deadline = loop.time() + STEP_S
        while len(shown) < limit and not self.is_over:
            empty = [lane for lane in self._lanes if not lane.found and not lane.is_read]
            if not empty:
                shown.append(self._next())
            elif self.looked < upto and loop.time() < deadline:
                piece = limit if self._matches is None else PIECE
                await asyncio.gather(*(self._fill(lane, piece) for lane in empty))
            else:
                waiting = [lane for lane in self._lanes if lane.found]
                if not waiting:
                    break
                shown.append(self._next())
        return shown

    def _next(self) -> Seen:
        lanes = [lane for lane in self._lanes if lane.found]
        pick = max if self._backwards else min
        return pick(lanes, key=lambda lane: (lane.found[0].timestamp_ms, lane.partition)).found.popleft()

    async def _fill(self, lane: Lane, count: int) -> None:
        async with self._turns:
            piece = lane.next_piece(count)
            lane.take(piece, await self._read(lane.partition, *piece))

    async def _read(self, partition: int, at: int, end: int) -> list[Seen]:
        found: list[Seen] = []
        while at < end:
            try:
                fetched = await self._consuming.fetch(self._topic, partition, at, end - at, 0)
            except BrokerError as error:
                if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                    raise
                at = max(at + 1, await self._consuming.offset_at(self._topic, partition, EARLIEST))
                continue
            before = at
            for after, record in fetched.read():
                at = after
                if record is None:
                    continue
                if record.offset >= end:
                    break
                self.looked += 1
                if self._matches is None or self._matches(record):
                    found.append(seen(record, self._topic, partition))
                if not self.looked % TURN:
                    await asyncio.sleep(0)
            if at == before:
                break
        return found


async def bounds_of(
    consuming: Consuming, topic: str, partitions: list[int], *, since_ms: int | None = None, since: int | None = None
) -> dict[int, tuple[int, int]]:
    """From where to where each partition goes: from its beginning, from a time, or from an offset."""

    async def one(index: int) -> tuple[int, tuple[int, int]]:
        start = await consuming.offset_at(topic, index, EARLIEST)
        end = await consuming.offset_at(topic, index, LATEST)
        if since_ms is not None:
            found = await consuming.offset_at(topic, index, since_ms)
            start = end if found < 0 else max(start, found)
        elif since is not None:
            start = min(max(start, since), end)
        return index, (start, end)

    return dict(await asyncio.gather(*(one(index) for index in partitions)))
