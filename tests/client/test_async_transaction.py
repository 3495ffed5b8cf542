"""Transactions from asyncio, against a real node."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from ottla.client.async_consumer import AsyncConsumer
from ottla.client.async_producer import AsyncProducer
from ottla.client.errors import ClosedError, DeliveryError, ProducerFencedError, TransactionError
from ottla.client.settings import ConsumerConfig, IsolationLevel, OffsetResetPolicy, ProducerConfig
from ottla.errors import ConfigError
from ottla.testing.pytest_plugin import OttlaTopic
from ottla.types import TopicPartition

PATIENCE_S = 30.0
T = TypeVar("T")


def run(program: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(program, PATIENCE_S))


def transactional(topic: OttlaTopic, **settings: Any) -> AsyncProducer:
    return AsyncProducer(
        ProducerConfig(
            **{
                "bootstrap_servers": topic.bootstrap_servers,
                "transactional_id": f"{topic.name}-writer",
                "linger_ms": 0,
                **settings,
            }
        )
    )


def reader(topic: OttlaTopic, group: str, **settings: Any) -> AsyncConsumer:
    config = ConsumerConfig(
        **{
            "bootstrap_servers": topic.bootstrap_servers,
            "group_id": group,
            "auto_offset_reset": OffsetResetPolicy.EARLIEST,
            "isolation_level": IsolationLevel.READ_COMMITTED,
            "enable_auto_commit": False,
            **settings,
        }
    )
    return AsyncConsumer(config)


async def committed(topic: OttlaTopic, count: int, name: str | None = None) -> list[bytes]:
    """The first `count` values that a reader of committed records gets."""
    values: list[bytes] = []
    async with reader(topic, f"{topic.name}-check") as consumer:
        await consumer.subscribe(name or topic.name)
        while len(values) < count:
            values += [message.value for message in await consumer.poll(1_000)]
    return values


def test_what_is_sent_in_a_transaction_is_visible_when_it_ends(ottla_topic: OttlaTopic) -> None:
    async def program() -> tuple[int, list[bytes]]:
        async with transactional(ottla_topic) as producer:
            async with producer.transaction():
                first = await producer.send_and_wait(ottla_topic.name, b"one")
                await producer.send(ottla_topic.name, b"two")
            return first.offset, await committed(ottla_topic, 2)

    assert run(program()) == (0, [b"one", b"two"])


def test_many_tasks_share_a_transaction(ottla_topic: OttlaTopic) -> None:
    async def program() -> list[bytes]:
        async with transactional(ottla_topic) as producer, producer.transaction():
            await asyncio.gather(*(producer.send_and_wait(ottla_topic.name, b"%d" % n) for n in range(50)))
        return await committed(ottla_topic, 50)

    assert sorted(run(program())) == sorted(b"%d" % n for n in range(50))


def test_an_exception_takes_everything_back(ottla_topic: OttlaTopic) -> None:
    async def fails(producer: AsyncProducer) -> None:
        async with producer.transaction():
            await producer.send_and_wait(ottla_topic.name, b"never")
            raise ZeroDivisionError

    async def program() -> list[bytes]:
        async with transactional(ottla_topic) as producer:
            with pytest.raises(ZeroDivisionError):
                await fails(producer)
            async with producer.transaction():
                await producer.send(ottla_topic.name, b"after")
            return await committed(ottla_topic, 1)

    assert run(program()) == [b"after"]


def test_a_task_that_is_cancelled_takes_everything_back(ottla_topic: OttlaTopic) -> None:
    async def writes(producer: AsyncProducer, is_written: asyncio.Event) -> None:
        async with producer.transaction():
            await producer.send_and_wait(ottla_topic.name, b"never")
            is_written.set()
            await asyncio.Event().wait()

    async def program() -> list[bytes]:
        async with transactional(ottla_topic) as producer:
            is_written = asyncio.Event()
            task = asyncio.create_task(writes(producer, is_written))
            await is_written.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            async with producer.transaction():
                await producer.send(ottla_topic.name, b"after")
            return await committed(ottla_topic, 1)

    assert run(program()) == [b"after"]


def test_a_commit_that_has_begun_is_seen_through_before_its_task_is_cancelled(ottla_topic: OttlaTopic) -> None:
    async def writes(producer: AsyncProducer, is_ending: asyncio.Event) -> None:
        async with producer.transaction():
            await producer.send(ottla_topic.name, b"one")
            asyncio.get_running_loop().call_soon(is_ending.set)

    async def program() -> list[bytes]:
        async with transactional(ottla_topic) as producer:
            is_ending = asyncio.Event()
            task = asyncio.create_task(writes(producer, is_ending))
            await is_ending.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            async with producer.transaction():  # no other is open
                await producer.send(ottla_topic.name, b"two")
            return await committed(ottla_topic, 2)

    assert run(program()) == [b"one", b"two"]


def test_the_loop_goes_on_while_a_transaction_ends(ottla_topic: OttlaTopic) -> None:
    async def program() -> int:
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        async with transactional(ottla_topic) as producer:
            counting = asyncio.create_task(count())
            async with producer.transaction():
                await producer.send(ottla_topic.name, b"x")
                before = turns
            counting.cancel()
            return turns - before

    assert run(program()) > 10


def test_it_can_be_left_early(ottla_topic: OttlaTopic) -> None:
    async def program() -> list[bytes]:
        async with transactional(ottla_topic, linger_ms=5_000) as producer:
            async with producer.transaction() as transaction:
                delivery = await producer.send(ottla_topic.name, b"never")
                await transaction.abort()
            with pytest.raises(DeliveryError):
                await delivery
            async with producer.transaction():
                await producer.send(ottla_topic.name, b"after")
            return await committed(ottla_topic, 1)

    assert run(program()) == [b"after"]


def test_offsets_are_stored_with_the_transaction_or_not_at_all(ottla_topic: OttlaTopic) -> None:
    source = ottla_topic.producer()
    for number in range(10):
        source.send(ottla_topic.name, b"%d" % number)
    source.flush()
    output = f"{ottla_topic.name}-out"
    ottla_topic.admin().create_topic(output)

    async def program() -> tuple[object, object, list[bytes]]:
        async with transactional(ottla_topic) as producer, reader(ottla_topic, "mover") as consumer:
            await consumer.subscribe(ottla_topic.name)
            messages = await consumer.poll(PATIENCE_S * 1_000, max_records=4)
            async with producer.transaction() as transaction:
                await producer.send_offsets(consumer)
                await transaction.abort()
            before = await consumer.committed()
            await consumer.rewind(messages)
            seen = 0
            while seen < 10:
                messages = await consumer.poll(1_000)
                async with producer.transaction():
                    for message in messages:
                        await producer.send(output, message.value)
                    await producer.send_offsets(consumer)
                seen += len(messages)
            return before, await consumer.committed(), await committed(ottla_topic, 10, output)

    at = TopicPartition(ottla_topic.name, 0)
    assert run(program()) == ({at: None}, {at: 10}, [b"%d" % number for number in range(10)])


def test_a_producer_that_was_replaced_is_told_that_it_is_fenced(ottla_topic: OttlaTopic) -> None:
    async def is_replaced(old: AsyncProducer, new: AsyncProducer) -> None:
        async with old.transaction():
            await old.send_and_wait(ottla_topic.name, b"zombie")
            await new.start()

    async def program() -> list[bytes]:
        old, new = transactional(ottla_topic), transactional(ottla_topic)
        with pytest.raises(ProducerFencedError):
            await is_replaced(old, new)
        async with new.transaction():
            await new.send(ottla_topic.name, b"alive")
        await new.close()
        await old.close()
        return await committed(ottla_topic, 1)

    assert run(program()) == [b"alive"]


def test_without_a_transaction_or_an_id_nothing_is_taken(ottla_topic: OttlaTopic) -> None:
    async def program() -> None:
        async with transactional(ottla_topic) as producer, reader(ottla_topic, "none") as consumer:
            with pytest.raises(TransactionError, match="no transaction is open"):
                await producer.send(ottla_topic.name, b"x")
            async with producer.transaction():
                with pytest.raises(TransactionError):
                    await producer.transaction().__aenter__()
        with pytest.raises(ClosedError):
            await producer.transaction().__aenter__()
        async with transactional(ottla_topic, transactional_id=None) as plain:
            with pytest.raises(ConfigError, match="transactional_id"):
                plain.transaction()
            with pytest.raises(ConfigError, match="transactional_id"):
                await plain.send_offsets(consumer)

    run(program())
