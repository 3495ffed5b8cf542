"""The broker that every test of this directory talks to, and topics on it."""

import itertools
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from bench import spark_connector
from tests.interop.node_process import NodeProcess
from tests.interop.waiting import eventually
from tests.spark.small import small_session

with warnings.catch_warnings():  # it reads its schemas, while it is imported, with functions that Python has deprecated
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka as _kafka  # noqa: F401 - for the side effect: the tests then find it loaded

MakeTopic = Callable[..., str]
_numbers = itertools.count()


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    given = os.environ.get("OTTLA_TEST_BOOTSTRAP")
    if given:
        yield given
        return
    directory: Path = tmp_path_factory.mktemp("node")
    node = NodeProcess(directory, "--set", "group.initial.rebalance.delay.ms=0")
    with node:
        yield node.bootstrap
        assert node.alive(), node.log()
        assert node.stop() == 0, node.log()


@pytest.fixture(scope="session")
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


@pytest.fixture
def unique() -> str:
    """A name that no other test uses, not even one of another run against the same broker."""
    return f"t-{os.getpid()}-{os.urandom(3).hex()}-{next(_numbers)}"


@pytest.fixture
def make_topic(admin: AdminClient, unique: str) -> MakeTopic:
    letters = itertools.count()

    def make(partitions: int = 1, **config: str) -> str:
        name = f"{unique}-{next(letters)}"
        settings = {key.replace("_", "."): value for key, value in config.items()}
        admin.create_topics([NewTopic(name, partitions, 1, config=settings)])[name].result(30)
        eventually(lambda: len(admin.list_topics(name, timeout=10).topics[name].partitions) == partitions)
        return name

    return make


@pytest.fixture
def topic(make_topic: MakeTopic) -> str:
    return make_topic()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A small Spark that has its own Kafka connector."""
    jars = ",".join(str(jar) for jar in spark_connector.jars())
    spark = small_session(tmp_path_factory.mktemp("warehouse"), spark__jars=jars)
    yield spark
    spark.stop()
