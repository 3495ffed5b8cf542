"""The helper's own behaviour, with SQLite and a real node."""

import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Protocol

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.client.errors import (
    ClosedError,
    ProducerFencedError,
    RefusedError,
    TimedOutError,
    TopicNotFoundError,
    TransactionError,
)
from ottla.errors import ConfigError
from ottla.two_phase import TwoPhaseProducer
from tests.interop.node_process import NodeProcess
from tests.interop.test_confluent_transactions import read_all

TOPIC = "orders"
FLAGS = ("--no-http", "--set", "transactions.transaction_two_phase_commit_enable=true")


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path_factory.mktemp("node"), *FLAGS) as running:
        yield running


@pytest.fixture
def topic(node: NodeProcess, request: pytest.FixtureRequest) -> str:
    name: str = request.node.name[:200].replace("[", "-").replace("]", "")
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    admin.create_topics([NewTopic(name, 2, 1)])[name].result(30)
    return name


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(connect(tmp_path)) as opened:
        yield opened


@pytest.fixture
def other_connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """To the same database."""
    with closing(connect(tmp_path)) as opened:
        yield opened


def connect(tmp_path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(tmp_path / "shop.db")
    database.execute("CREATE TABLE IF NOT EXISTS orders (name TEXT)")
    return database


class Make(Protocol):
    def __call__(self, node: NodeProcess, database: sqlite3.Connection, topic: str) -> TwoPhaseProducer: ...


@pytest.fixture
def producer_of() -> Iterator[Make]:
    """Producers that are closed with the test."""
    with ExitStack() as opened:

        def make(node: NodeProcess, database: sqlite3.Connection, topic: str) -> TwoPhaseProducer:
            return opened.enter_context(
                TwoPhaseProducer(
                    database, transactional_id=f"{topic}-id", bootstrap_servers=node.bootstrap, patience_s=20
                )
            )

        yield make


def rows(database: sqlite3.Connection) -> list[str]:
    return [name for (name,) in database.execute("SELECT name FROM orders ORDER BY rowid")]


def test_both_are_committed(producer_of: Make, node: NodeProcess, topic: str, database: sqlite3.Connection) -> None:
    producer = producer_of(node, database, topic)
    for name in ("a", "b"):
        with producer.transaction():
            database.execute("INSERT INTO orders VALUES (?)", (name,))
            producer.send(topic, {"name": name}, key=name, headers={"h": "1"})
    producer.close()
    assert rows(database) == ["a", "b"]
    assert sorted(read_all(node.bootstrap, topic, 2)) == [b'{"name":"a"}', b'{"name":"b"}']


def test_an_exception_takes_both_back_and_the_next_works(
    producer_of: Make, node: NodeProcess, topic: str, database: sqlite3.Connection
) -> None:
    producer = producer_of(node, database, topic)

    def fails(size: int) -> None:
        with producer.transaction():
            database.execute("INSERT INTO orders VALUES ('never')")
            producer.send(topic, b"x" * size)
            raise ZeroDivisionError

    for size in (1, 300_000):  # the latter is sent before the exception
        with pytest.raises(ZeroDivisionError):
            fails(size)
    with producer.transaction():
        database.execute("INSERT INTO orders VALUES ('after')")
        producer.send(topic, b"after")
    assert rows(database) == ["after"]
    assert read_all(node.bootstrap, topic, 2) == [b"after"]


def test_many_records_keep_their_order_within_a_partition(
    producer_of: Make, node: NodeProcess, topic: str, database: sqlite3.Connection
) -> None:
    producer = producer_of(node, database, topic)
    values = [b"%06d" % number + b"." * 1_000 for number in range(1_000)]
    with producer.transaction():
        for value in values:
            producer.send(topic, value, partition=1)
    assert read_all(node.bootstrap, topic, 2) == values


def test_without_records_only_the_database_is_committed(
    producer_of: Make, node: NodeProcess, topic: str, database: sqlite3.Connection
) -> None:
    producer = producer_of(node, database, topic)
    with producer.transaction():
        database.execute("INSERT INTO orders VALUES ('alone')")
    with producer.transaction():
        producer.send(topic, b"x")
    assert rows(database) == ["alone"]
    assert read_all(node.bootstrap, topic, 2) == [b"x"]


def test_one_that_was_replaced_can_commit_neither(
    producer_of: Make,
    node: NodeProcess,
    topic: str,
    database: sqlite3.Connection,
    other_connection: sqlite3.Connection,
) -> None:
    """Replaced at the worst moment: everything is prepared, and only the database's commit is missing."""
    old = producer_of(node, database, topic)
    block = old.transaction()
    block.__enter__()
    old.send(topic, b"zombie")
    old._writer.flush()
    database.execute("ROLLBACK")  # SQLite has one writer at a time: let the other in, as another database would
    new = producer_of(node, other_connection, topic)
    database.execute("BEGIN IMMEDIATE")
    database.execute("INSERT INTO orders VALUES ('zombie')")

    with pytest.raises(ProducerFencedError):
        block.__exit__(None, None, None)
    with new.transaction():
        other_connection.execute("INSERT INTO orders VALUES ('alive')")
        new.send(topic, b"alive")
    with pytest.raises(ProducerFencedError), old.transaction():
        pass

    assert rows(other_connection) == ["alive"]
    assert read_all(node.bootstrap, topic, 2) == [b"alive"]


def test_the_node_may_crash_at_any_time(tmp_path: Path, database: sqlite3.Connection) -> None:
    directory = tmp_path / "node"
    with NodeProcess(directory, *FLAGS) as node:
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 2, 1)])[TOPIC].result(30)
        with TwoPhaseProducer(
            database, transactional_id="shop", bootstrap_servers=node.bootstrap, patience_s=30
        ) as producer:
            for number in range(6):
                with producer.transaction():
                    database.execute("INSERT INTO orders VALUES (?)", (str(number),))
                    producer.send(TOPIC, str(number), partition=0)
                    producer._writer.flush()
                    if number % 2:
                        node.kill()
                        node.start()
                    producer.send(TOPIC, str(number), partition=1)
        found = Counter(value.decode() for value in read_all(node.bootstrap, TOPIC, 2))
    assert found == Counter(dict.fromkeys(rows(database), 2))
    assert len(found) == 6


def test_records_of_a_decided_transaction_show_later_if_the_node_is_away_at_its_end(
    tmp_path: Path, database: sqlite3.Connection
) -> None:
    directory = tmp_path / "node"
    with NodeProcess(directory, *FLAGS) as node:
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 2, 1)])[TOPIC].result(30)
        producer = TwoPhaseProducer(
            database, transactional_id="shop", bootstrap_servers=node.bootstrap, patience_s=0.2
        ).start()
        with producer.transaction():
            database.execute("INSERT INTO orders VALUES ('decided')")
            producer.send(TOPIC, b"decided")
            producer._writer.flush()
            node.kill()
        assert rows(database) == ["decided"]
        with pytest.raises((TimedOutError, OSError)), producer.transaction():
            pass
        node.start()
        producer._writer._patience_s = 20
        with producer, producer.transaction():
            producer.send(TOPIC, b"next")
        assert sorted(read_all(node.bootstrap, TOPIC, 2)) == [b"decided", b"next"]


def test_brokers_that_do_not_allow_it_are_told_apart(
    producer_of: Make, tmp_path: Path, database: sqlite3.Connection
) -> None:
    forbidden = ("--set", "transactions.transaction_two_phase_commit_enable=false", "--no-http")
    plain = NodeProcess(tmp_path / "plain", *forbidden)
    with plain as node, pytest.raises(RefusedError, match=r"two\.phase\.commit"):
        producer_of(node, database, "plain")


def test_misuse_is_told(producer_of: Make, node: NodeProcess, topic: str, database: sqlite3.Connection) -> None:
    producer = producer_of(node, database, topic)
    with pytest.raises(TransactionError, match="no transaction is open"):
        producer.send(topic, b"x")
    with producer.transaction(), pytest.raises(TransactionError, match="nest"), producer.transaction():
        pass
    with pytest.raises(RefusedError, match="no 7"), producer.transaction():
        producer.send(topic, b"x", partition=7)
    with pytest.raises(TopicNotFoundError), producer.transaction():
        producer.send("no/such/topic", b"x")
    database.execute("BEGIN")
    with pytest.raises(ConfigError, match="open already"), producer.transaction():
        pass
    database.rollback()
    producer.close()
    with pytest.raises(ClosedError), producer.transaction():
        pass


def test_a_block_that_ends_the_databases_transaction_itself_is_told(
    producer_of: Make, node: NodeProcess, topic: str, database: sqlite3.Connection
) -> None:
    producer = producer_of(node, database, topic)

    def commits_inside() -> None:
        with producer.transaction():
            producer.send(topic, b"never")
            database.commit()

    with pytest.raises(TransactionError, match="ended inside"):
        commits_inside()
    with producer.transaction():
        producer.send(topic, b"next")
    assert read_all(node.bootstrap, topic, 2) == [b"next"]


def test_a_database_that_may_forget_commits_is_refused(database: sqlite3.Connection) -> None:
    database.execute("PRAGMA synchronous = OFF")
    with pytest.raises(ConfigError, match="synchronous"):
        TwoPhaseProducer(database, transactional_id="x")
