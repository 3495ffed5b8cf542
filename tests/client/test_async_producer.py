"""Sending from asyncio, against a real node."""

import asyncio
import threading

import pytest

from ottla.client.async_producer import AsyncProducer
from ottla.client.delivery import RecordMetadata
from ottla.client.errors import ClosedError, DeliveryError, UndeliveredError
from ottla.client.settings import ProducerConfig
from ottla.testing.pytest_plugin import OttlaTopic

NOWHERE = "127.0.0.1:1"


def config(topic: OttlaTopic, linger_ms: float = 0) -> ProducerConfig:
    return ProducerConfig(bootstrap_servers=topic.bootstrap_servers, linger_ms=linger_ms)


def client_threads() -> list[str]:
    """Without those of the node, which is in the same process."""
    node = ("ottla-node", "ottla-commit", "ottla-upkeep")
    return sorted(thread.name for thread in threading.enumerate() if not thread.name.startswith(node))


def test_a_record_is_sent_and_acknowledged(ottla_topic: OttlaTopic) -> None:
    async def program() -> tuple[RecordMetadata, RecordMetadata]:
        async with AsyncProducer(config(ottla_topic)) as producer:
            delivery = await producer.send(ottla_topic.name, b"one", key="k", headers={"h": b"1"})
            return await delivery, await producer.send_and_wait(ottla_topic.name, {"two": 2}, timestamp_ms=1_000)

    first, second = asyncio.run(program())

    assert (first.offset, second.offset, second.timestamp) == (0, 1, 1_000)


def test_many_tasks_share_a_producer_without_threads_of_their_own(ottla_topic: OttlaTopic) -> None:
    async def task(producer: AsyncProducer) -> list[int]:
        deliveries = [await producer.send(ottla_topic.name, b"x") for _ in range(100)]
        return [(await delivery).offset for delivery in deliveries]

    async def program() -> tuple[list[list[int]], list[str]]:
        async with AsyncProducer(config(ottla_topic, linger_ms=5)) as producer:
            offsets = await asyncio.gather(*(task(producer) for _ in range(20)))
            return offsets, client_threads()

    before = client_threads()
    offsets, threads = asyncio.run(program())

    assert sorted(offset for part in offsets for offset in part) == list(range(2_000))
    assert threads == [*before, "ottla-producer"]


def test_the_loop_goes_on_while_a_record_is_on_its_way(ottla_topic: OttlaTopic) -> None:
    async def program() -> list[str]:
        order: list[str] = []
        async with AsyncProducer(config(ottla_topic, linger_ms=200)) as producer:
            delivery = await producer.send(ottla_topic.name, b"x")
            asyncio.get_running_loop().call_soon(order.append, "loop")
            await delivery
            order.append("acknowledged")
        return order

    assert asyncio.run(program()) == ["loop", "acknowledged"]


def test_a_cancelled_task_takes_no_record_back_and_others_still_get_its_result(ottla_topic: OttlaTopic) -> None:
    async def program() -> RecordMetadata:
        async with AsyncProducer(config(ottla_topic, linger_ms=200)) as producer:
            delivery = await producer.send(ottla_topic.name, b"x")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(_await(delivery), 0.01)
            return await delivery

    async def _await(delivery: object) -> None:
        await delivery  # type: ignore[misc]  # an awaitable of our own

    assert asyncio.run(program()).offset == 0


def test_leaving_the_block_sends_what_is_waiting(ottla_topic: OttlaTopic) -> None:
    async def program() -> list[int]:
        async with AsyncProducer(config(ottla_topic, linger_ms=60_000)) as producer:
            deliveries = [await producer.send(ottla_topic.name, b"x") for _ in range(10)]
        with pytest.raises(ClosedError):
            await producer.send(ottla_topic.name, b"late")
        return [(await delivery).offset for delivery in deliveries]

    assert asyncio.run(program()) == list(range(10))


def test_flushing_waits_for_all(ottla_topic: OttlaTopic) -> None:
    async def program() -> bool:
        async with AsyncProducer(config(ottla_topic, linger_ms=60_000)) as producer:
            delivery = await producer.send(ottla_topic.name, b"x")
            await producer.flush(30)
            assert len(producer) == 0
            assert producer.metrics().delivered == 1
            return delivery.done()

    assert asyncio.run(program())


def test_a_record_that_cannot_be_delivered_raises_where_it_is_awaited() -> None:
    async def program() -> None:
        async with AsyncProducer(ProducerConfig(bootstrap_servers=NOWHERE, delivery_timeout_ms=300)) as producer:
            with pytest.raises(DeliveryError):
                await producer.send_and_wait("t", b"x")

    asyncio.run(program())


def test_a_failure_that_nobody_awaited_is_reported_at_the_end() -> None:
    async def program() -> None:
        async with AsyncProducer(ProducerConfig(bootstrap_servers=NOWHERE, delivery_timeout_ms=300)) as producer:
            await producer.send("t", b"x")

    with pytest.raises(UndeliveredError):
        asyncio.run(program())
