"""Answers to Produce that a commit sends by itself: a whole node, over a real socket.

From a connection's second request with the same beginning on no answer is waited for in between: it is made when the
records are appended, and the commit hands it to the connection.
"""

import asyncio
import logging
import struct
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

from ottla.config import JournalConfig, NetworkConfig
from ottla.errors import ErrorCode
from ottla.protocol.framing import encode_request
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.records import Record, build_batch
from ottla.protocol.schema import Request
from ottla.runtime.connection import NOT_HELD, Connection
from ottla.testing.disk import Operation
from tests.node_rig import NodeRig, with_node, with_node_that_dies
from tests.runtime.connection_rig import Client, until

pytestmark = pytest.mark.usefixtures("reads")

VERSIONS = [5, 7, 9, 11, 13]
FETCH_VERSION = 12


def batch(value: bytes, **more: Any) -> bytes:
    record = Record(key=None, value=value, headers=(), timestamp_ms=time.time_ns() // 1_000_000, offset=-1)
    return build_batch([record], **more)


def produce(rig: NodeRig, records: bytes, topic: str = "t", index: int = 0, acks: int = -1) -> ProduceRequest:
    data = [PartitionProduceData(index=index, records=records)]
    named = TopicProduceData(name=topic, topic_id=rig.node.image.topics[topic].topic_id, partition_data=data)
    return ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=[named])


def fetch(offset: int, wait_ms: int) -> FetchRequest:
    asked = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topics = [FetchTopic(topic="u", partitions=[asked])]
    return FetchRequest(max_wait_ms=wait_ms, min_bytes=1, max_bytes=1 << 20, session_epoch=-1, topics=topics)


def frame(request: Request, version: int, correlation_id: int, client_id: str = "test") -> bytes:
    return b"".join(encode_request(request, version, correlation_id=correlation_id, client_id=client_id))


async def answer(client: Client, version: int) -> tuple[int, int, int, int]:
    """Of a Produce: correlation id, index, error code, base offset."""
    correlation_id, said = await client.answer(ProduceRequest, version)
    data = said.responses[0].partition_responses[0]
    return correlation_id, data.index, data.error_code, data.base_offset


@asynccontextmanager
async def connected(rig: NodeRig) -> AsyncIterator[Client]:
    client = Client(*await asyncio.open_connection("127.0.0.1", rig.node.port))
    try:
        yield client
    finally:
        client.writer.close()


def served(rig: NodeRig) -> Connection:
    (connection,) = rig.node.server.connections
    return connection


async def learn(rig: NodeRig, client: Client, version: int, topic: str = "t") -> None:
    """The first is decoded, and the second has its beginning looked up."""
    for number in range(2):
        client.writer.write(frame(produce(rig, batch(b"first"), topic), version, number))
        assert (await answer(client, version))[:3] == (number, 0, 0)
    assert served(rig).context.again is not None


@contextmanager
def before_commits(rig: NodeRig, action: Callable[[], None]) -> Iterator[None]:
    """Do that whenever a commit is about to be written into the journal."""

    def look(operation: Operation, path: str) -> None:
        if operation is Operation.WRITE and path.startswith("journal/"):
            action()

    rig.disk.before_operation = look
    try:
        yield
    finally:
        rig.disk.before_operation = None


def with_topics(scenario: Callable[[NodeRig, Client], Awaitable[None]], **settings: Any) -> None:
    async def prepared(rig: NodeRig) -> None:
        await rig.create("t", partitions=3)
        await rig.create("u")
        async with connected(rig) as client:
            await scenario(rig, client)

    with_node(prepared, **settings)


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("version", VERSIONS)
def test_the_answer_is_the_one_that_was_given_before(version: int, acks: int) -> None:
    async def scenario(rig: NodeRig, client: Client) -> None:
        said = []
        for number in range(4):
            client.writer.write(frame(produce(rig, batch(b"%d" % number), index=2, acks=acks), version, 77))
            said.append(await client.frame())
        numbers = [struct.pack(">ihq", 2, 0, number) for number in range(4)]
        assert [one.count(number) for one, number in zip(said, numbers, strict=True)] == [1] * 4
        assert len({one.replace(number, b"") for one, number in zip(said, numbers, strict=True)}) == 1
        assert await rig.values("t", partition=2) == [b"0", b"1", b"2", b"3"]

    with_topics(scenario)


@pytest.mark.parametrize("version", VERSIONS)
def test_many_in_flight_are_answered_in_their_order_whatever_comes_between(version: int) -> None:
    async def scenario(rig: NodeRig, client: Client) -> None:
        await learn(rig, client, version)
        small, large = b"x", b"y" * 5_000
        sent, expected = [], {(0, "t"): 2}
        kinds: list[tuple[type[Request], int, Any]] = []
        for number in range(120):
            index, topic = number % 3, "u" if number % 7 == 6 else "t"
            if number % 10 == 9:
                asked = [MetadataRequestTopic(name="t")]
                sent.append(frame(MetadataRequest(topics=asked, allow_auto_topic_creation=False), 9, number))
                kinds.append((MetadataRequest, 9, None))
            elif number % 25 == 24:
                sent.append(frame(ApiVersionsRequest(), 3, number))
                kinds.append((ApiVersionsRequest, 3, None))
            else:
                index = 0 if topic == "u" else index
                records = batch(large if number % 4 == 3 else small)
                sent.append(frame(produce(rig, records, topic, index), version, number))
                offset = expected.get((index, topic), 0)
                expected[index, topic] = offset + 1
                kinds.append((ProduceRequest, version, (index, 0, offset)))
        client.writer.write(b"".join(sent))
        for number, (kind, of_version, wanted) in enumerate(kinds):
            if wanted is None:
                assert (await client.answer(kind, of_version))[0] == number
            else:
                assert await answer(client, version) == (number, *wanted)

    with_topics(scenario)


def test_an_answer_behind_one_that_waits_for_records_comes_after_it() -> None:
    async def scenario(rig: NodeRig, client: Client) -> None:
        await learn(rig, client, 9)
        client.writer.write(frame(produce(rig, batch(b"before")), 9, 10))
        client.writer.write(frame(fetch(0, wait_ms=20_000), FETCH_VERSION, 11))
        client.writer.write(frame(produce(rig, batch(b"behind")), 9, 12))
        assert await answer(client, 9) == (10, 0, 0, 2)
        await until(lambda: rig.node.partitions.get("t", 0).high_watermark == 4)
        assert [route.request for route in served(rig).waiting()] == [FetchRequest, ProduceRequest]
        await rig.produce("u", b"at last")
        assert (await client.answer(FetchRequest, FETCH_VERSION))[0] == 11
        assert await answer(client, 9) == (12, 0, 0, 3)
        assert not served(rig).line

    with_topics(scenario)


@pytest.mark.parametrize("version", [7, 9, 13])
def test_a_commit_that_fails_is_told_to_all_of_them(version: int) -> None:
    async def scenario(rig: NodeRig, client: Client) -> None:
        await learn(rig, client, version)
        with rig.commits_fail():
            client.writer.write(
                b"".join(frame(produce(rig, batch(b"x"), index=at % 3), version, 50 + at) for at in range(6))
            )
            told = [await answer(client, version) for _ in range(6)]
        assert told == [(50 + at, at % 3, ErrorCode.KAFKA_STORAGE_ERROR, -1) for at in range(6)]
        client.writer.write(frame(produce(rig, batch(b"after")), version, 60))
        assert await answer(client, version) == (60, 0, 0, 2)

    with_topics(scenario)


def test_whoever_hangs_up_meanwhile_is_not_waited_for() -> None:
    async def scenario(rig: NodeRig, client: Client) -> None:
        await learn(rig, client, 9)
        connection = served(rig)
        waited: list[int] = []
        bugs: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, bug: bugs.append(bug))

        def gone() -> None:
            waited.append(len(connection.line))
            connection.connection_lost(None)

        with before_commits(rig, gone):
            client.writer.write(b"".join(frame(produce(rig, batch(b"x")), 9, at) for at in range(5)))
            await until(lambda: bool(waited))
        async with connected(rig) as other:
            other.writer.write(frame(produce(rig, batch(b"y")), 9, 1))
            assert await answer(other, 9) == (1, 0, 0, 2 + waited[0])
        assert not connection.line
        assert not bugs

    with_topics(scenario)


def test_a_connection_is_not_read_while_too_many_wait() -> None:
    async def scenario(rig: NodeRig, client: Client) -> None:
        await learn(rig, client, 9)
        most: list[int] = []
        with before_commits(rig, lambda: most.append(len(served(rig).line))):
            client.writer.write(b"".join(frame(produce(rig, batch(b"x")), 9, at) for at in range(50)))
            told = [await answer(client, 9) for _ in range(50)]
        assert told == [(at, 0, 0, 2 + at) for at in range(50)]
        assert max(most) == 4

    with_topics(scenario, network=NetworkConfig(requests_queued_max=4))


@pytest.mark.parametrize("version", [7, 9, 13])
def test_what_is_refused_is_told_of_who_sent_it(version: int, caplog: pytest.LogCaptureFixture) -> None:
    numbered = {"producer_id": 7, "producer_epoch": 0}

    async def scenario(rig: NodeRig, client: Client) -> None:
        for client_id, sequence in (("one", 0), ("one", 1), ("one", 2), ("two", 3), ("two", 4), ("one", 5)):
            records = batch(b"x", base_sequence=sequence, **numbered)
            client.writer.write(frame(produce(rig, records), version, sequence, client_id))
            assert (await answer(client, version))[:3] == (sequence, 0, 0)
            assert served(rig).context.client_id == client_id
        client.writer.write(frame(ApiVersionsRequest(), 3, 8, "three"))
        await client.answer(ApiVersionsRequest, 3)
        with caplog.at_level(logging.WARNING):
            client.writer.write(frame(produce(rig, batch(b"x", base_sequence=9, **numbered)), version, 9, "one"))
            assert (await answer(client, version))[2] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert [line.client for line in caplog.records if "refused" in line.message] == ["one"]  # type: ignore[attr-defined]

    with_topics(scenario)


def test_a_frame_with_a_known_beginning_and_nothing_right_behind_it_is_refused() -> None:
    async def scenario(rig: NodeRig, client: Client) -> None:
        await learn(rig, client, 7)
        good = frame(produce(rig, batch(b"x")), 7, 3)
        cut = good[4:-10]
        client.writer.write(struct.pack(">i", len(cut)) + cut)
        assert await client.hung_up()
        async with connected(rig) as other:
            other.writer.write(good)
            assert await answer(other, 7) == (3, 0, 0, 2)

    with_topics(scenario)


@pytest.mark.parametrize("known", [False, True], ids=["decoded", "told by the commit"])
def test_a_stop_answers_what_was_appended(known: bool) -> None:
    """Otherwise a client without sequence numbers sends it again, and it is there twice."""
    stops = threading.Event()

    def wait_for_the_stop() -> None:
        stops.wait(20)

    async def scenario(rig: NodeRig) -> None:
        await rig.create("t")
        async with connected(rig) as client:
            if known:
                await learn(rig, client, 9)
            with before_commits(rig, wait_for_the_stop):
                client.writer.write(frame(produce(rig, batch(b"last")), 9, 7))
                await until(lambda: bool(rig.node.server.connections) and bool(served(rig).line))
                connection = served(rig)
                stopping = asyncio.create_task(rig.node.stop())
                await until(lambda: connection.held != NOT_HELD)
                stops.set()
                assert (await answer(client, 9))[:3] == (7, 0, 0)
                assert await client.hung_up()
                await stopping

    with_node_that_dies(scenario, journal=JournalConfig(inline_sync_mean_us_max=0))
