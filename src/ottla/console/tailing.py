"""What is written to a topic, as it is written, for one person who looks on.

Each leader is asked for all partitions that it leads at once. Nobody reads faster than a screen scrolls: of a topic
that is written faster than it can be looked at, records are passed over and counted, and only the last are kept.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from ottla.console.searching import Seen, seen
from ottla.errors import BrokerError, ErrorCode
from ottla.http.api import Api
from ottla.http.cluster import CUT_OFF, MOVED
from ottla.http.consume import CONSUMER, FETCH_VERSION, LATEST, Fetched
from ottla.http.filters import Filter
from ottla.http.ways import HELD
from ottla.protocol.messages.fetch import READ_COMMITTED, FetchPartition, FetchRequest, FetchResponse, FetchTopic

KEPT_MAX = 200
WAIT_MS = 1_000
PAUSE_S = 0.2
FETCH_BYTES_MAX = 512 * 1024
BEHIND_MAX = 5_000
"""Further behind than this, the rest is passed over."""
TURN = 250
MOVED_PAUSE_S = 0.5


class Tail:
    def __init__(self, api: Api, topic: str, matches: Filter | None, on_change: Callable[[], None]) -> None:
        self._api = api
        self._topic = topic
        self._matches = matches
        self._on_change = on_change
        self._at: dict[int, int] = {}
        self.records: deque[Seen] = deque(maxlen=KEPT_MAX)
        self.seen = 0
        self.passed_over = 0

    def newest(self) -> list[Seen]:
        """What is kept, the newest first: partitions of different leaders come at different moments."""
        return sorted(self.records, key=lambda each: (each.timestamp_ms, each.partition, each.offset), reverse=True)

    async def run(self) -> None:
        """Until it is cancelled. BrokerError if the topic can't be read."""
        partitions = range(await self._api.partition_count(self._topic))
        ends = await asyncio.gather(*(self._api.consuming.offset_at(self._topic, at, LATEST) for at in partitions))
        self._at = dict(enumerate(ends))
        while True:
            readers = [asyncio.ensure_future(self._follow(*each)) for each in self._by_leader().items()]
            try:
                done, _ = await asyncio.wait(readers, return_when=asyncio.FIRST_EXCEPTION)
                error = next((task.exception() for task in done), None)
            finally:
                for reader in readers:
                    reader.cancel()
                await asyncio.gather(*readers, return_exceptions=True)
            if not isinstance(error, BrokerError) or error.code not in MOVED | CUT_OFF:
                raise error or BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR)
            await asyncio.sleep(MOVED_PAUSE_S)
            await self._api.cluster.ways.refresh(self._topic)

    def _by_leader(self) -> dict[int, list[int]]:
        leaders: dict[int, list[int]] = {}
        for partition in self._at:
            leader = self._api.cluster.ways.leader(self._topic, partition)
            leaders.setdefault(-1 if leader is None else leader, []).append(partition)
        return leaders

    async def _follow(self, leader: int, partitions: list[int]) -> None:
        if leader < 0:
            raise BrokerError(ErrorCode.LEADER_NOT_AVAILABLE)
        await self._api.cluster.ways.meet(leader)
        while True:
            answers = await self._api.cluster.take(
                self._request(partitions),
                self._taken,
                node_id=leader,
                version=FETCH_VERSION,
                timeout_ms=WAIT_MS + self._api.cluster.timeout_ms,
                channel=HELD,
            )
            for partition, fetched in answers:
                await self._show(partition, fetched)
            await asyncio.sleep(PAUSE_S)

    def _request(self, partitions: list[int]) -> FetchRequest:
        asked = [
            FetchPartition(partition=index, fetch_offset=self._at[index], partition_max_bytes=FETCH_BYTES_MAX)
            for index in partitions
        ]
        return FetchRequest(
            replica_id=CONSUMER,
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            max_bytes=FETCH_BYTES_MAX,
            isolation_level=READ_COMMITTED,
            topics=[FetchTopic(topic=self._topic, partitions=asked)],
        )

    def _taken(self, answer: FetchResponse) -> list[tuple[int, Fetched]]:
        if answer.error_code:
            raise BrokerError(ErrorCode(answer.error_code))
        found = []
        for topic in answer.responses:
            for data in topic.partitions:
                index = data.partition_index
                if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    self._at[index] = max(data.log_start_offset, 0)
                elif data.error_code:
                    raise BrokerError(ErrorCode(data.error_code))
                else:
                    found.append((index, Fetched(data, self._at[index])))
        return found

    async def _show(self, partition: int, fetched: Fetched) -> None:
        changed = False
        for number, (after, record) in enumerate(fetched.read()):
            self._at[partition] = after
            if record is None:
                continue
            self.seen += 1
            if self._matches is None or self._matches(record):
                self.records.append(seen(record, self._topic, partition))
                changed = True
            if not number % TURN:
                await asyncio.sleep(0)
        behind = fetched.high_watermark - self._at[partition]
        if behind > BEHIND_MAX:
            self.passed_over += behind - KEPT_MAX
            self._at[partition] = fetched.high_watermark - KEPT_MAX
        if changed:
            self._on_change()
