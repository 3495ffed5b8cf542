"""A node that allows commits in two phases, and topics on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from ottla.config.transactions import TransactionConfig
from ottla.testing.pytest_plugin import OttlaNode
from pyspark_ottla.wire import Cluster
from tests.spark.reading import Topics


@pytest.fixture(scope="session")
def spark_node(ottla_node_factory: Callable[..., OttlaNode]) -> OttlaNode:
    return ottla_node_factory(transactions=TransactionConfig(transaction_two_phase_commit_enable=True))


@pytest.fixture
def topics(spark_node: OttlaNode, request: pytest.FixtureRequest) -> Iterator[Topics]:
    topics = Topics(spark_node, request.node.name)
    with topics.opened:
        yield topics


@pytest.fixture
def cluster(spark_node: OttlaNode) -> Iterator[Cluster]:
    with Cluster(spark_node.bootstrap_servers, timeout_s=20) as cluster:
        yield cluster
