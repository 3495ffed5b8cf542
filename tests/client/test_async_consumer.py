"""Reading from asyncio, against a real node."""

import asyncio
from typing import Any

import pytest

from ottla.client.async_consumer import AsyncConsumer
from ottla.client.errors import ClosedError
from ottla.client.message import Message
from ottla.client.settings import ConsumerConfig, OffsetResetPolicy
from ottla.testing.pytest_plugin import OttlaTopic
from ottla.types import TopicPartition

PATIENCE_S = 30.0


def config(topic: OttlaTopic, group: str, **settings: Any) -> ConsumerConfig:
    return ConsumerConfig(
        bootstrap_servers=topic.bootstrap_servers,
        group_id=group,
        auto_offset_reset=OffsetResetPolicy.EARLIEST,
        fetch_max_wait_ms=50,
        **settings,
    )


def fill(topic: OttlaTopic, count: int) -> None:
    producer = topic.producer()
    for number in range(count):
        producer.send(topic.name, b"%d" % number)
    producer.flush()


async def read(consumer: AsyncConsumer, count: int) -> list[Message]:
    messages: list[Message] = []
    async with asyncio.timeout(PATIENCE_S):
        while len(messages) < count:
            messages += await consumer.poll(1_000)
    return messages


def test_messages_are_polled(ottla_topic: OttlaTopic) -> None:
    async def program() -> list[bytes]:
        async with AsyncConsumer(config(ottla_topic, "async-poll")) as consumer:
            await consumer.subscribe(ottla_topic.name)
            return [message.value for message in await read(consumer, 10)]

    fill(ottla_topic, 10)

    assert asyncio.run(program()) == [b"%d" % number for number in range(10)]


def test_a_loop_gets_messages_and_commits_what_it_has_got(ottla_topic: OttlaTopic) -> None:
    async def program() -> dict[TopicPartition, int | None]:
        async with AsyncConsumer(config(ottla_topic, "async-loop", enable_auto_commit=False)) as consumer:
            await consumer.subscribe(ottla_topic.name)
            async for message in consumer:
                if message.offset == 5:
                    await consumer.commit()
                    return await consumer.committed()
        raise AssertionError("the loop ended by itself")

    fill(ottla_topic, 10)

    assert asyncio.run(program()) == {TopicPartition(ottla_topic.name, 0): 6}


def test_the_loop_of_events_goes_on_while_nothing_comes(ottla_topic: OttlaTopic) -> None:
    async def program() -> int:
        ticks = 0
        async with AsyncConsumer(config(ottla_topic, "async-idle")) as consumer:
            await consumer.subscribe(ottla_topic.name)
            polling = asyncio.create_task(consumer.poll(300))
            while not polling.done():
                ticks += 1
                await asyncio.sleep(0)
            assert await polling == []
        return ticks

    assert asyncio.run(program()) > 10


def test_a_poll_that_is_cancelled_loses_nothing(ottla_topic: OttlaTopic) -> None:
    """Polls are cancelled again and again while records come; all are read, once and in order."""

    async def program() -> list[int]:
        offsets: list[int] = []
        async with AsyncConsumer(config(ottla_topic, "async-cancel")) as consumer, asyncio.timeout(PATIENCE_S):
            await consumer.subscribe(ottla_topic.name)
            while len(offsets) < 2_000:
                try:
                    async with asyncio.timeout(0.003):
                        offsets += [message.offset for message in await consumer.poll(1_000, max_records=50)]
                except TimeoutError:
                    continue
        return offsets

    fill(ottla_topic, 2_000)

    assert asyncio.run(program()) == list(range(2_000))


def test_what_a_cancelled_poll_has_fetched_is_not_committed(ottla_topic: OttlaTopic) -> None:
    async def program() -> dict[TopicPartition, int | None]:
        async with AsyncConsumer(config(ottla_topic, "async-uncommitted", enable_auto_commit=False)) as consumer:
            await consumer.subscribe(ottla_topic.name)
            await read(consumer, 3)
            polling = asyncio.create_task(consumer.poll(10_000))
            await asyncio.sleep(0)
            polling.cancel()
            await asyncio.to_thread(fill, ottla_topic, 5)
            await consumer.commit()
            return await consumer.committed()

    fill(ottla_topic, 3)

    assert asyncio.run(program()) == {TopicPartition(ottla_topic.name, 0): 3}


def test_it_moves_pauses_and_tells_where_it_is(ottla_topic: OttlaTopic) -> None:
    at = (ottla_topic.name, 0)

    async def program() -> None:
        async with AsyncConsumer(config(ottla_topic, "async-moves")) as consumer:
            await consumer.subscribe(ottla_topic.name)
            await read(consumer, 10)
            assert await consumer.assignment() == {TopicPartition(*at)}
            await consumer.seek(at, 7)
            assert await consumer.position(at) == 7
            assert [message.offset for message in await read(consumer, 3)] == [7, 8, 9]
            await consumer.seek_to_beginning()
            await consumer.pause()
            assert await consumer.poll(200) == []
            await consumer.resume()
            assert (await read(consumer, 10))[0].offset == 0
            assert (await consumer.lag())[0].records == 0
            await consumer.seek_to_end(at)
            await consumer.unsubscribe()

    fill(ottla_topic, 10)
    asyncio.run(program())


def test_partitions_are_assigned_without_a_group(ottla_topic: OttlaTopic) -> None:
    async def program() -> int:
        consumer = AsyncConsumer(ConsumerConfig(bootstrap_servers=ottla_topic.bootstrap_servers))
        await consumer.assign({(ottla_topic.name, 0): 4})
        [message, *_] = await read(consumer, 1)
        await consumer.seek_to_time(0)
        await consumer.close()
        await consumer.close()
        with pytest.raises(ClosedError):
            await consumer.poll(0)
        return message.offset

    fill(ottla_topic, 5)

    assert asyncio.run(program()) == 4


def test_closing_ends_a_poll_that_waits(ottla_topic: OttlaTopic) -> None:
    async def program() -> None:
        consumer = AsyncConsumer(config(ottla_topic, "async-close"))
        await consumer.subscribe(ottla_topic.name)
        polling = asyncio.create_task(consumer.poll(60_000))
        await asyncio.sleep(0)
        async with asyncio.timeout(PATIENCE_S):
            await consumer.close()
            assert await polling == []

    asyncio.run(program())
