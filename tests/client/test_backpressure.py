"""What senders see when the broker does not keep up or connections break: they wait, are told, and lose nothing."""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ottla.client.admin import Admin
from ottla.client.async_producer import AsyncProducer
from ottla.client.delivery import DeliveryFuture
from ottla.client.errors import BufferFullError
from ottla.client.producer import Producer
from ottla.client.settings import ProducerConfig
from ottla.embedded import EmbeddedNode
from ottla.types import TopicPartition
from tests.client.stalling_proxy import StallingProxy


class Stage:
    """A node that clients reach through the proxy only."""

    def __init__(self, proxy: StallingProxy) -> None:
        self.proxy = proxy

    def config(self, **settings: Any) -> ProducerConfig:
        return ProducerConfig(bootstrap_servers=self.proxy.address, **{"linger_ms": 0, **settings})

    def written(self) -> int:
        """Records that the node has."""
        with Admin(bootstrap_servers=self.proxy.address) as admin:
            return admin.topic_offsets("t")[TopicPartition("t", 0)].offset


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with ExitStack() as stack:
        proxy = stack.enter_context(StallingProxy())
        node = stack.enter_context(EmbeddedNode(tmp_path, advertised_port=proxy.port))
        assert node.node is not None
        proxy.target = ("127.0.0.1", node.node.port)
        with Admin(bootstrap_servers=proxy.address) as admin:
            admin.create_topic("t")
        yield Stage(proxy)


def test_a_full_buffer_waits_for_the_time_allowed_and_then_raises_and_nothing_is_lost(stage: Stage) -> None:
    producer = Producer(stage.config(buffer_records=100, max_block_ms=300)).start()
    producer.send("t", b"warm-up").result(10)
    stage.proxy.stall()
    futures = [producer.send("t", b"x") for _ in range(100)]

    before = time.monotonic()
    with pytest.raises(BufferFullError, match="100 records wait"):
        producer.send("t", b"one too many")
    waited_s = time.monotonic() - before
    assert 0.25 < waited_s < 10
    assert not any(future.done() for future in futures)

    stage.proxy.flow()
    producer.close(60)

    assert sorted(future.result(0).offset for future in futures) == list(range(1, 101))
    assert stage.written() == 101


def test_a_sender_that_waits_goes_on_when_the_broker_does(stage: Stage) -> None:
    producer = Producer(stage.config(buffer_records=50, max_block_ms=60_000)).start()
    producer.send("t", b"warm-up").result(10)
    stage.proxy.stall()
    futures: list[DeliveryFuture] = []

    def send() -> None:
        futures.extend(producer.send("t", b"x") for _ in range(500))

    thread = threading.Thread(target=send)
    thread.start()
    thread.join(0.3)
    assert thread.is_alive()

    stage.proxy.flow()
    thread.join(60)
    producer.close(60)

    assert sorted(future.result(0).offset for future in futures) == list(range(1, 501))


def test_asyncio_senders_wait_without_blocking_the_loop(stage: Stage) -> None:
    async def program() -> tuple[int, list[int]]:
        ticks = 0
        async with AsyncProducer(stage.config(buffer_records=50, max_block_ms=300)) as producer:
            await producer.send_and_wait("t", b"warm-up")
            stage.proxy.stall()
            deliveries = [await producer.send("t", b"x") for _ in range(50)]
            refused = asyncio.create_task(producer.send("t", b"one too many"))
            while not refused.done():
                ticks += 1
                await asyncio.sleep(0.001)
            with pytest.raises(BufferFullError):
                await refused
            stage.proxy.flow()
            return ticks, [(await delivery).offset for delivery in deliveries]

    ticks, offsets = asyncio.run(program())

    assert ticks > 10
    assert sorted(offsets) == list(range(1, 51))


def test_connections_that_break_again_and_again_lose_and_double_nothing(stage: Stage) -> None:
    producer = Producer(stage.config(retry_backoff_ms=10)).start()
    futures: list[DeliveryFuture] = []
    for round_ in range(10):
        futures += [producer.send("t", b"%d" % round_) for _ in range(200)]
        stage.proxy.cut()
    producer.close(60)

    assert sorted(future.result(0).offset for future in futures) == list(range(2_000))
    assert stage.written() == 2_000
