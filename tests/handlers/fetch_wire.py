"""Fetch requests as a connection serves them, the short way and the long one, to be compared."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from ottla.handlers.fetch_short import ShortFetch
from ottla.handlers.registry import NOT_TAKEN, apis
from ottla.protocol.codec import codec_for, decode, encode
from ottla.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from ottla.services import Deferred, RequestContext
from tests.node_rig import NodeRig

VERSIONS = range(5, 18)
LONG_MS = 20_000
HEAD = b"head"
Offsets = dict[tuple[str, int], int]

every_version = pytest.mark.parametrize("version", VERSIONS)
some_versions = pytest.mark.parametrize("version", [6, 11, 12, 17])
isolation = pytest.mark.parametrize("isolation", [0, 1])


class Wire:
    """Requests in one version, as a connection serves them: the short way, and else the long one."""

    def __init__(self, rig: NodeRig, version: int) -> None:
        self.rig = rig
        self.version = version
        self.short = ShortFetch(version)
        self.took_short_way = False
        self.deferred: Deferred[Any] | None = None

    def request(self, at: Offsets, **more: Any) -> FetchRequest:
        """From these offsets, in their order: a topic may come twice."""
        topics: list[FetchTopic] = []
        partition = {key: more.pop(key) for key in FetchPartition.field_names() if key in more}
        for (topic, index), offset in at.items():
            if not topics or topics[-1].topic != topic:
                image = self.rig.node.image.topics.get(topic)
                topics.append(FetchTopic(topic=topic, topic_id=image.topic_id if image else b"?" * 16, partitions=[]))
            asked = {"partition_max_bytes": 1 << 20, **partition, "partition": index, "fetch_offset": offset}
            topics[-1].partitions.append(FetchPartition(**asked))  # type: ignore[attr-defined]  # the list above
        return FetchRequest(**{"max_wait_ms": LONG_MS, "min_bytes": 1, "max_bytes": 1 << 20, **more, "topics": topics})

    def context(self) -> RequestContext:
        context = RequestContext(self.rig.node, "127.0.0.1")
        context.api_version = self.version
        context.now_ms = self.rig.node.clock.now_ms()
        return context

    def frame(self, request: FetchRequest) -> memoryview:
        return memoryview(HEAD + encode(request, self.version))

    def ask(self, request: FetchRequest, left_over: bytes = b"") -> "asyncio.Future[bytes]":
        frame = memoryview(bytes(self.frame(request)) + left_over)
        answer = self.short.serve(frame, len(HEAD), self.context())
        self.took_short_way = answer is not NOT_TAKEN
        if answer is NOT_TAKEN:
            decoded, _ = codec_for(FetchRequest, self.version).decode(frame, len(HEAD))
            answer = apis()[FetchRequest.api_key].handler(decoded, self.context())
            self.short.learn(decoded, frame, len(HEAD), self.context())
        return self._future(answer)

    def ask_the_long_way(self, request: FetchRequest) -> "asyncio.Future[bytes]":
        decoded = decode(FetchRequest, self.version, encode(request, self.version))
        return self._future(apis()[FetchRequest.api_key].handler(decoded, self.context()))

    def _future(self, answer: Any) -> "asyncio.Future[bytes]":
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.deferred = answer if isinstance(answer, Deferred) else None
        if self.deferred is None:
            future.set_result(self._encoded(answer))
        else:
            self.deferred.on_done(lambda done: future.set_result(self._encoded(done.value)))
        return future

    def _encoded(self, answer: Any) -> bytes:
        return answer if isinstance(answer, bytes) else encode(answer, self.version)

    def learn(self, at: Sequence[tuple[str, int]], **more: Any) -> None:
        """Let it be known, by a request that finds nothing and hangs up."""
        request = self.request({partition: self.tail(*partition) for partition in at}, **more)
        self.ask(request)
        assert not self.took_short_way
        if self.deferred is not None:
            self.deferred.abandon()

    def tail(self, topic: str, index: int) -> int:
        return self.rig.node.partitions.get(topic, index).high_watermark

    async def same(self, request: FetchRequest, *, short: bool = True) -> FetchResponse:
        """The answer to a request that does not wait, or not for long: the same on both ways."""
        long = self.ask_the_long_way(request)
        mine = self.ask(request)
        assert self.took_short_way == short
        assert await mine == await long
        return decode(FetchResponse, self.version, await mine)

    def waiters(self) -> int:
        return sum(len(partition.waiters) for partition in self.rig.node.partitions.led())


def of(topic: str, *indexes: int) -> list[tuple[str, int]]:
    return [(topic, index) for index in indexes]


def sizes(answer: FetchResponse) -> list[int]:
    return [len(data.records or b"") for topic in answer.responses for data in topic.partitions]


def errors(answer: FetchResponse) -> list[int]:
    return [data.error_code for topic in answer.responses for data in topic.partitions]
