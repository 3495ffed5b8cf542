"""A whole node on a disk in memory, asked through its handlers: everything but the sockets is what ships."""

import asyncio
import errno
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvloop

from ottla.config import BrokerConfig
from ottla.errors import BrokerError
from ottla.handlers.registry import apis
from ottla.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from ottla.protocol.records import Record, build_batch, iter_batches, read_records
from ottla.protocol.schema import Request
from ottla.runtime.node import Node
from ottla.services import Deferred, RequestContext
from ottla.testing.disk import CrashingDisk, Fault, Operation

BY_NAME = 12
"""The last version of Fetch, and of Produce, in which topics go by their names."""


class NodeRig:
    def __init__(self, node: Node, disk: CrashingDisk) -> None:
        self.node = node
        self.disk = disk

    def ask(self, request: Request, version: int | None = None) -> "asyncio.Future[Any]":
        """The answer to a request, as a future. BrokerError where dispatch would put a code into the answer."""
        api = apis()[request.api_key]
        context = RequestContext(self.node, "127.0.0.1")
        context.client_id = "test"
        context.api_version = api.versions[1] if version is None else version
        context.now_ms = self.node.clock.now_ms()
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        try:
            answer = api.handler(request, context)
        except BrokerError as error:
            future.set_exception(error)
            return future
        if isinstance(answer, Deferred):
            answer.on_done(lambda done: _settle(future, done))
        else:
            future.set_result(answer)
        return future

    async def create(self, topic: str, partitions: int = 1, **configs: str) -> Any:
        wanted = CreatableTopic(
            name=topic,
            num_partitions=partitions,
            replication_factor=1,
            configs=[CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in configs.items()],
        )
        return (await self.ask(CreateTopicsRequest(topics=[wanted]))).topics[0]

    def produce_bytes(
        self, topic: str, batch: bytes | None, partition: int = 0, acks: int = -1
    ) -> "asyncio.Future[ProduceResponse]":
        data = PartitionProduceData(index=partition, records=batch)
        topics = [TopicProduceData(name=topic, partition_data=[data])]
        request = ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=topics)
        return self.ask(request, BY_NAME)

    async def produce(self, topic: str, *values: bytes, partition: int = 0, **batch: Any) -> Any:
        """The answer for that one partition."""
        now_ms = self.node.clock.now_ms()
        records = [Record(key=None, value=value, headers=(), timestamp_ms=now_ms, offset=-1) for value in values]
        answer = await self.produce_bytes(topic, build_batch(records, **batch), partition)
        return answer.responses[0].partition_responses[0]

    def fetch(
        self, topic: str, offset: int = 0, partition: int = 0, *, wait_ms: int = 0, **more: Any
    ) -> "asyncio.Future[FetchResponse]":
        wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=wait_ms,
            session_epoch=-1,
            topics=[FetchTopic(topic=topic, partitions=[wanted])],
            **{"min_bytes": 1, "max_bytes": 1 << 20, **more},
        )
        return self.ask(request, BY_NAME)

    async def values(self, topic: str, offset: int = 0, partition: int = 0) -> list[bytes | None]:
        """Everything that a reader finds from `offset` on."""
        answer = await self.fetch(topic, offset, partition)
        return values_of(answer, offset)

    @contextmanager
    def commits_fail(self) -> Iterator[None]:
        """The journal finds no room meanwhile: commits are refused, and nothing is in doubt afterwards."""
        fault = Fault(operation=Operation.WRITE, path_contains="journal", errno=errno.ENOSPC)
        self.disk.faults.append(fault)
        try:
            yield
        finally:
            self.disk.faults.remove(fault)


def values_of(answer: FetchResponse, offset: int = 0) -> list[bytes | None]:
    data = answer.responses[0].partitions[0]
    assert data.error_code == 0, data
    assert isinstance(data.records, bytes)
    return [
        record.value
        for batch in iter_batches(data.records)
        for record in read_records(batch.data)
        if record.offset >= offset
    ]


def _settle(future: "asyncio.Future[Any]", done: Deferred[Any]) -> None:
    if future.cancelled():
        return
    if done.error is not None:
        future.set_exception(done.error)
    else:
        future.set_result(done.value)


Scenario = Callable[[NodeRig], Awaitable[None]]


def with_node(scenario: Scenario, *, disk: CrashingDisk | None = None, **settings: Any) -> CrashingDisk:
    """Run `scenario` on a node that is then stopped in good order. Returns the disk, for the next one."""
    return _run(scenario, disk or CrashingDisk(), stop=True, **settings)


def with_node_that_dies(scenario: Scenario, *, disk: CrashingDisk | None = None, **settings: Any) -> CrashingDisk:
    """Run `scenario` on a node that is then gone without a word. Returns what a crash leaves of the disk."""
    return _run(scenario, disk or CrashingDisk(), stop=False, **settings).crash()


def _run(scenario: Scenario, disk: CrashingDisk, *, stop: bool, **settings: Any) -> CrashingDisk:
    async def life() -> None:
        config = BrokerConfig(port=0, **settings)
        node = Node(config, loop=asyncio.get_running_loop(), disk=disk)
        await node.start()
        try:
            await asyncio.wait_for(scenario(NodeRig(node, disk)), 30)
        finally:
            if stop:
                await node.stop()
            else:
                await node.abandon()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(life())
    return disk
