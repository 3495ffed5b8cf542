"""Nodes that allow and forbid commits in two phases, and topics on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from ottla.config.storage import Durability, JournalConfig
from ottla.config.transactions import TransactionConfig
from ottla.testing.pytest_plugin import OttlaNode
from pyspark_ottla.wire import Cluster
from tests.spark.reading import Topics

QUICK = JournalConfig(durability=Durability.OS)
"""Nobody pulls the plug of these nodes."""


@pytest.fixture(scope="session")
def spark_node(ottla_node_factory: Callable[..., OttlaNode]) -> OttlaNode:
    return ottla_node_factory(journal=QUICK)


@pytest.fixture(scope="session")
def plain_node(ottla_node_factory: Callable[..., OttlaNode]) -> OttlaNode:
    """Forbids commits in two phases."""
    transactions = TransactionConfig(transaction_two_phase_commit_enable=False)
    return ottla_node_factory(journal=QUICK, transactions=transactions)


@pytest.fixture
def topics(spark_node: OttlaNode, request: pytest.FixtureRequest) -> Iterator[Topics]:
    topics = Topics(spark_node, request.node.name)
    with topics.opened:
        yield topics


@pytest.fixture
def cluster(spark_node: OttlaNode) -> Iterator[Cluster]:
    with Cluster(spark_node.bootstrap_servers, timeout_s=20) as cluster:
        yield cluster
