"""Fixtures for test suites that need a real broker: installing ottla is enough.

    def test_orders_are_billed(ottla_topic):
        ottla_topic.producer().send(ottla_topic.name, b"order 1").result()
        [message] = ottla_topic.consumer().poll(5_000)

`ottla_node` is one node for the whole session, on a free port and in a temporary directory; `ottla_topic` is a topic of
its own for every test, which is what keeps tests apart. `ottla_node_factory` makes further nodes. Nothing is imported
and nothing is started until a test asks for one of them.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ottla.client.admin import Admin
    from ottla.client.consumer import Consumer
    from ottla.client.producer import Producer
    from ottla.embedded import EmbeddedNode


class Clients:
    """Makes clients for one broker and closes them together."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        """`host:port`, for any Kafka client."""
        self._open = ExitStack()
        self._groups = itertools.count(1)

    def producer(self, **settings: Any) -> Producer:
        """A started producer without linger, as tests wait for every record. `settings` are those of ProducerConfig."""
        from ottla.client.producer import Producer
        from ottla.client.settings import ProducerConfig

        config = ProducerConfig(bootstrap_servers=self.bootstrap_servers, **{"linger_ms": 0, **settings})
        return self._open.enter_context(Producer(config))

    def consumer(self, *topics: str, **settings: Any) -> Consumer:
        """A consumer of these topics from their beginning, in a group of its own unless `group_id` says otherwise."""
        from ottla.client.consumer import Consumer
        from ottla.client.settings import ConsumerConfig, OffsetResetPolicy

        defaults = {
            "group_id": f"{topics[0] if topics else 'test'}-group-{next(self._groups)}",
            "auto_offset_reset": OffsetResetPolicy.EARLIEST,
            "fetch_max_wait_ms": 50,  # a seek or a resume waits until the fetch that is under way has ended
            "metadata_max_age_ms": 500,
        }
        config = ConsumerConfig(bootstrap_servers=self.bootstrap_servers, **{**defaults, **settings})
        consumer = self._open.enter_context(Consumer(config))
        if topics:
            consumer.subscribe(topics)
        return consumer

    def admin(self, **settings: Any) -> Admin:
        from ottla.client.admin import Admin
        from ottla.client.settings import AdminConfig

        return self._open.enter_context(Admin(AdminConfig(bootstrap_servers=self.bootstrap_servers, **settings)))

    def close(self) -> None:
        self._open.close()


class OttlaNode(Clients):
    """A running node, with clients that are closed when the session ends."""

    def __init__(self, embedded: EmbeddedNode) -> None:
        super().__init__(embedded.bootstrap)
        self.embedded = embedded
        self.data_dir = Path(embedded.config.data_dir)

    def stop(self) -> None:
        self.close()
        self.embedded.stop()


class OttlaTopic(Clients):
    """A topic of one test, with clients that are closed when the test ends."""

    def __init__(self, bootstrap_servers: str, name: str, partitions: int) -> None:
        super().__init__(bootstrap_servers)
        self.name = name
        self.partitions = partitions

    def __str__(self) -> str:
        return self.name

    def consumer(self, *topics: str, **settings: Any) -> Consumer:
        """Of this topic, unless others are named."""
        return super().consumer(*(topics or (self.name,)), **settings)


@pytest.fixture(scope="session")
def ottla_node_factory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., OttlaNode]]:
    """Starts nodes, each in a directory of its own, and stops them at the end. Takes settings of BrokerConfig."""
    with ExitStack() as running:

        def start(**settings: Any) -> OttlaNode:
            from ottla.config import GroupConfig
            from ottla.embedded import EmbeddedNode

            # A test has its few consumers at hand: there is nobody to wait for before a group is formed.
            groups = GroupConfig(group_initial_rebalance_delay_ms=0)
            embedded = EmbeddedNode(tmp_path_factory.mktemp("ottla"), **{"groups": groups, **settings})
            node = OttlaNode(embedded.start())
            running.callback(node.stop)
            return node

        yield start


@pytest.fixture(scope="session")
def ottla_node(ottla_node_factory: Callable[..., OttlaNode]) -> OttlaNode:
    """One node for all tests of the session (of each worker, with pytest-xdist)."""
    return ottla_node_factory()


@pytest.fixture
def ottla_topic(ottla_node: OttlaNode, request: pytest.FixtureRequest) -> Iterator[OttlaTopic]:
    """A new topic with one partition, or as many as `@pytest.mark.parametrize("ottla_topic", [3], indirect=True)`."""
    partitions: int = getattr(request, "param", 1)
    topic = OttlaTopic(ottla_node.bootstrap_servers, _topic_name(request.node.nodeid), partitions)
    try:
        topic.admin().create_topic(topic.name, partitions=partitions)
        yield topic
    finally:
        topic.close()


_numbers = itertools.count(1)


def _topic_name(test: str) -> str:
    """From the name of the test, so that a log line tells where it came from."""
    words = re.sub(r"[^A-Za-z0-9._-]+", "-", test.rpartition("::")[2])
    return f"{words[:200].strip('-')}-{next(_numbers)}"
