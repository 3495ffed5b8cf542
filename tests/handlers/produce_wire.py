"""Produce requests as a connection serves them: the short way where there is one, and else the long one."""

import asyncio
import time
from typing import Any

from ottla.handlers.produce_short import ShortProduce
from ottla.handlers.registry import NOT_TAKEN, apis
from ottla.protocol.codec import codec_for
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from ottla.protocol.records import Record, build_batch
from ottla.services import Deferred, RequestContext
from tests.node_rig import NodeRig

VERSIONS = range(5, 14)
BODY_AT = 4


def batch(value: bytes = b"x", **more: Any) -> bytes:
    record = Record(key=None, value=value, headers=(), timestamp_ms=time.time_ns() // 1_000_000, offset=-1)
    return build_batch([record], **more)


def topic_data(rig: NodeRig, topic: str, *batches: bytes, index: int = 0) -> TopicProduceData:
    data = [PartitionProduceData(index=index, records=records) for records in batches]
    return TopicProduceData(name=topic, topic_id=rig.node.image.topics[topic].topic_id, partition_data=data)


class Wire:
    """Requests in one version, as a connection serves them: the short way, and else the long one."""

    def __init__(self, rig: NodeRig, version: int, short: ShortProduce | None = None) -> None:
        self.rig = rig
        self.version = version
        self.short = short or ShortProduce(version)
        self.took_short_way = False

    def frame(self, request: ProduceRequest) -> bytes:
        out: list[Any] = []
        codec_for(ProduceRequest, self.version).encode(request, out)
        return b"head" + b"".join(out)

    async def send(self, request: ProduceRequest, *, left_over: bytes = b"") -> ProduceResponse | None:
        answer: ProduceResponse | bytes | None = await self.answer(memoryview(self.frame(request) + left_over))
        if isinstance(answer, bytes):
            decoded: ProduceResponse
            decoded, end = codec_for(ProduceResponse, self.version).decode(memoryview(answer), 0)
            assert end == len(answer)
            return decoded
        return answer

    async def answer(self, frame: memoryview) -> Any:
        context = RequestContext(self.rig.node, "127.0.0.1")
        context.api_version = self.version
        context.now_ms = self.rig.node.clock.now_ms()
        answer = self.short.serve(frame, BODY_AT, context)
        self.took_short_way = answer is not NOT_TAKEN
        if answer is NOT_TAKEN:
            request, _ = codec_for(ProduceRequest, self.version).decode(frame, BODY_AT)
            answer = apis()[ProduceRequest.api_key].handler(request, context)
            self.short.learn(request, frame, BODY_AT, context)
        if not isinstance(answer, Deferred):
            return answer
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        answer.on_done(lambda done: future.set_result(done.value))
        return await asyncio.wait_for(future, 10)

    async def produce(self, records: bytes, topic: str = "t", acks: int = -1, index: int = 0) -> ProduceResponse | None:
        data = topic_data(self.rig, topic, records, index=index)
        return await self.send(ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=[data]))


def of_partition(answer: ProduceResponse | None) -> Any:
    assert answer is not None
    return answer.responses[0].partition_responses[0]
