"""The same with PostgreSQL: the program is killed on both sides of the decision."""

import os
import pwd
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.client.errors import ProducerFencedError
from ottla.errors import ConfigError
from ottla.two_phase import TwoPhaseProducer
from tests.interop.node_process import NodeProcess, accepts_connections
from tests.interop.test_confluent_transactions import read_all
from tests.interop.waiting import eventually
from tests.ports import free_port
from tests.programs import needs, require
from tests.two_phase import crashing
from tests.two_phase.test_crashes import outcome

pytestmark = needs("initdb")


@pytest.fixture(scope="module")
def postgres_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    directory = tmp_path_factory.mktemp("postgres")
    as_user: dict[str, Any] = {"cwd": directory}
    if os.getuid() == 0:  # PostgreSQL refuses to be run by root
        nobody = pwd.getpwnam("nobody")
        os.chown(directory, nobody.pw_uid, nobody.pw_gid)
        for parent in directory.parents[:3]:
            parent.chmod(parent.stat().st_mode | 0o011)
        as_user |= {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
    data, port = directory / "data", free_port()
    initdb = require("initdb")
    made = [initdb, "-D", str(data), "-U", "postgres", "-A", "trust", "--no-sync"]
    subprocess.run(made, check=True, capture_output=True, timeout=60, **as_user)
    postgres = str(Path(initdb).with_name("postgres"))
    command = [postgres, "-D", str(data), "-p", str(port), "-h", "127.0.0.1", "-k", str(directory)]
    with open(tmp_path_factory.mktemp("log") / "postgres.log", "wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, **as_user)
    try:
        eventually(lambda: accepts_connections(port), within_s=30, what="PostgreSQL")
        yield port
    finally:
        server.send_signal(signal.SIGQUIT)
        server.wait(30)


@pytest.fixture
def database(postgres_port: int) -> Iterator[Any]:
    def connected() -> Any:
        try:
            return crashing.postgres(postgres_port)
        except Exception:  # it accepts connections before it serves them
            return None

    opened = eventually(connected, within_s=30, what="PostgreSQL")
    for statement in ("DROP TABLE IF EXISTS orders, ottla_transactions", "CREATE TABLE orders (name TEXT)"):
        opened.cursor().execute(statement)
    opened.commit()
    yield opened
    opened.close()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    enabled = ("--set", "transactions.transaction_two_phase_commit_enable=true", "--no-http")
    with NodeProcess(tmp_path / "node", *enabled) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        admin.create_topics([NewTopic(crashing.TOPIC, 2, 1)])[crashing.TOPIC].result(30)
        yield running


def rows(database: Any) -> set[str]:
    cursor = database.cursor()
    cursor.execute("SELECT name FROM orders")
    found = {name for (name,) in cursor.fetchall()}
    database.rollback()
    return found


def test_database_and_topic_agree_after_kills_on_both_sides_of_the_decision(
    node: NodeProcess, postgres_port: int, database: Any
) -> None:
    for number, dies in enumerate(("before", "after", "never", "after", "before", "never")):
        code = outcome(crashing.postgres_order, node.bootstrap, postgres_port, f"{number} {dies}", dies)
        assert code == (0 if dies == "never" else -signal.SIGKILL)
    assert rows(database) == {"1 after", "2 never", "3 after", "5 never"}
    records = Counter(value.decode() for value in read_all(node.bootstrap, crashing.TOPIC, 2))
    assert records == Counter(dict.fromkeys(rows(database), 2))


def test_an_exception_takes_both_back_and_a_successor_fences(
    node: NodeProcess, postgres_port: int, database: Any
) -> None:
    other = crashing.postgres(postgres_port)
    settings: dict[str, Any] = {"transactional_id": "pg", "bootstrap_servers": node.bootstrap}
    with TwoPhaseProducer(database, **settings) as old:

        def fails() -> None:
            with old.transaction():
                database.cursor().execute("INSERT INTO orders VALUES ('never')")
                old.send(crashing.TOPIC, b"never")
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fails()
        block = old.transaction()
        block.__enter__()
        database.cursor().execute("INSERT INTO orders VALUES ('zombie')")
        old.send(crashing.TOPIC, b"zombie")
        old._writer.flush()
        with TwoPhaseProducer(other, **settings) as new:
            with pytest.raises(ProducerFencedError):
                block.__exit__(None, None, None)
            with new.transaction():
                other.cursor().execute("INSERT INTO orders VALUES ('alive')")
                new.send(crashing.TOPIC, b"alive")
    other.close()
    assert rows(database) == {"alive"}
    assert read_all(node.bootstrap, crashing.TOPIC, 2) == [b"alive"]


def test_a_connection_that_commits_by_itself_is_refused(database: Any) -> None:
    database.autocommit = True
    with pytest.raises(ConfigError, match="autocommit"):
        TwoPhaseProducer(database, transactional_id="pg")
    database.autocommit = False
