"""aiokafka: the asyncio client, which stays at older API versions than the others."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.structs import OffsetAndMetadata

from tests.interop.conftest import MakeTopic

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:aiokafka")


@asynccontextmanager
async def _producer(bootstrap: str, **settings: Any) -> AsyncIterator[AIOKafkaProducer]:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, **settings) as producer:
        yield producer


@asynccontextmanager
async def _consumer(bootstrap: str, *topics: str, **settings: Any) -> AsyncIterator[AIOKafkaConsumer]:
    defaults: dict[str, Any] = {"auto_offset_reset": "earliest", "enable_auto_commit": False}
    async with AIOKafkaConsumer(*topics, bootstrap_servers=bootstrap, **(defaults | settings)) as consumer:
        yield consumer


async def _read(consumer: AIOKafkaConsumer, count: int) -> list[Any]:
    async with asyncio.timeout(20):
        return [await consumer.getone() for _ in range(count)]


async def _eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(20):
        while not await condition():
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("compression", [None, "gzip", "snappy", "lz4", "zstd"])
def test_records_of_every_compression_come_back_in_order(bootstrap: str, topic: str, compression: str | None) -> None:
    async def scenario() -> list[Any]:
        async with _producer(bootstrap, compression_type=compression, linger_ms=5) as producer:
            sent = [await producer.send(topic, b"%d" % n * 10, headers=[("n", b"%d" % n)]) for n in range(500)]
            await asyncio.gather(*sent)
        async with _consumer(bootstrap, topic) as consumer:
            return await _read(consumer, 500)

    records = asyncio.run(scenario())

    assert [record.offset for record in records] == list(range(500))
    assert [record.value for record in records] == [b"%d" % n * 10 for n in range(500)]
    assert records[7].headers == (("n", b"7"),)


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_kind_of_acknowledgement_works(bootstrap: str, topic: str, acks: int | str) -> None:
    async def scenario() -> list[Any]:
        async with _producer(bootstrap, acks=acks) as producer:
            await producer.send_and_wait(topic, b"v")
        async with _consumer(bootstrap, topic) as consumer:
            return await _read(consumer, 1)

    assert [record.value for record in asyncio.run(scenario())] == [b"v"]


def test_an_idempotent_producer_keeps_the_order(bootstrap: str, topic: str) -> None:
    async def scenario() -> list[Any]:
        async with _producer(bootstrap, enable_idempotence=True) as producer:
            await asyncio.gather(*[await producer.send(topic, b"%d" % n) for n in range(1000)])
        async with _consumer(bootstrap, topic) as consumer:
            return await _read(consumer, 1000)

    assert [record.value for record in asyncio.run(scenario())] == [b"%d" % n for n in range(1000)]


def test_null_keys_and_values_are_kept(bootstrap: str, topic: str) -> None:
    async def scenario() -> list[Any]:
        async with _producer(bootstrap) as producer:
            await producer.send_and_wait(topic, key=b"k", value=None)
            await producer.send_and_wait(topic, key=None, value=b"v")
        async with _consumer(bootstrap, topic) as consumer:
            return await _read(consumer, 2)

    assert [(record.key, record.value) for record in asyncio.run(scenario())] == [(b"k", None), (None, b"v")]


def test_a_group_goes_on_where_it_committed(bootstrap: str, topic: str, unique: str) -> None:
    partition = TopicPartition(topic, 0)

    async def scenario() -> tuple[int, Any]:
        async with _producer(bootstrap) as producer:
            for _ in range(10):
                await producer.send_and_wait(topic, b"v")
        async with _consumer(bootstrap, topic, group_id=unique) as consumer:
            await _read(consumer, 6)
            await consumer.commit({partition: OffsetAndMetadata(6, "note")})
        async with _consumer(bootstrap, topic, group_id=unique) as consumer:
            (record,) = await _read(consumer, 1)
            return await consumer.committed(partition), record

    committed, record = asyncio.run(scenario())

    assert (committed, record.offset) == (6, 6)


ASSIGNORS = [RangePartitionAssignor, RoundRobinPartitionAssignor, StickyPartitionAssignor]


@pytest.mark.parametrize("assignor", ASSIGNORS, ids=lambda assignor: assignor.__name__)
def test_partitions_are_spread_anew_when_members_come_and_go(
    bootstrap: str, make_topic: MakeTopic, unique: str, assignor: type
) -> None:
    topic = make_topic(partitions=6)
    settings = {"group_id": unique, "heartbeat_interval_ms": 100, "partition_assignment_strategy": [assignor]}

    async def settled(members: list[AIOKafkaConsumer], sizes: list[int]) -> None:
        async def spread() -> bool:
            held = [part.partition for member in members for part in member.assignment()]
            return sorted(held) == list(range(6)) and sorted(len(m.assignment()) for m in members) == sizes

        await _eventually(spread)

    async def scenario() -> None:
        async with _consumer(bootstrap, topic, **settings) as first:
            await settled([first], [6])
            async with _consumer(bootstrap, topic, **settings) as second:
                await settled([first, second], [3, 3])
                async with _consumer(bootstrap, topic, **settings) as third:
                    await settled([first, second, third], [2, 2, 2])
                await settled([first, second], [3, 3])

    asyncio.run(scenario())


def test_offsets_are_found_by_time_and_at_both_ends(bootstrap: str, topic: str) -> None:
    partition = TopicPartition(topic, 0)

    async def scenario() -> tuple[Any, Any, Any]:
        async with _producer(bootstrap) as producer:
            for number in range(10):
                await producer.send_and_wait(topic, b"v", timestamp_ms=1_600_000_000_000 + number)
        async with _consumer(bootstrap) as consumer:
            return (
                await consumer.beginning_offsets([partition]),
                await consumer.end_offsets([partition]),
                await consumer.offsets_for_times({partition: 1_600_000_000_004}),
            )

    first, end, found = asyncio.run(scenario())

    assert (first[partition], end[partition], found[partition].offset) == (0, 10, 4)


def test_topics_and_groups_are_administered(bootstrap: str, unique: str) -> None:
    async def scenario() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        await admin.create_topics([NewTopic(name=unique, num_partitions=2, replication_factor=1)])

        async def listed() -> bool:
            return unique in await admin.list_topics()

        async def gone() -> bool:
            return not await listed()

        await _eventually(listed)
        async with _consumer(bootstrap, unique, group_id=unique):
            assert (unique, "consumer") in await admin.list_consumer_groups()
        await admin.delete_topics([unique])
        await _eventually(gone)
        await admin.close()

    asyncio.run(scenario())
