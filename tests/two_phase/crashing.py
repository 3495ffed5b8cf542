"""A program that writes to a database and to Ottla, and kills itself at a given step.

A step is the moment before or after anything that goes to a broker or to the database: so every state that a crash
could leave behind is one that some number of steps leaves behind.
"""

import contextlib
import os
import signal
import sqlite3
from typing import Any

from ottla.two_phase import TwoPhaseProducer
from ottla.two_phase.brokers import Brokers
from ottla.two_phase.databases import Postgres, Sqlite
from ottla.two_phase.writer import Writer
from tests.dying import NEVER, die_at

TOPIC = "orders"
STEPS: tuple[tuple[type, str], ...] = (
    (Brokers, "ask"),
    (Sqlite, "begin"),
    (Sqlite, "name"),
    (Sqlite, "commit"),
    (Sqlite, "rollback"),
)


def connect(path: str) -> sqlite3.Connection:
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE IF NOT EXISTS orders (name TEXT PRIMARY KEY)")
    return database


def work(bootstrap: str, path: str, run: str, step: int) -> None:
    """Two transactions that are committed, around one that is not."""
    database = connect(path)
    if step != NEVER:
        die_at(step, STEPS)
    with TwoPhaseProducer(database, transactional_id="shop", bootstrap_servers=bootstrap) as producer:
        _order(database, producer, f"{run}/first")
        with contextlib.suppress(ZeroDivisionError):
            _order(database, producer, f"{run}/never", fails=True)
        _order(database, producer, f"{run}/second")


def recover(bootstrap: str, path: str, step: int) -> None:
    database = connect(path)
    if step != NEVER:
        die_at(step, STEPS)
    with TwoPhaseProducer(database, transactional_id="shop", bootstrap_servers=bootstrap):
        pass


def _order(database: sqlite3.Connection, producer: TwoPhaseProducer, name: str, *, fails: bool = False) -> None:
    with producer.transaction():
        database.execute("INSERT INTO orders VALUES (?)", (name,))
        for partition in (0, 1):
            producer.send(TOPIC, name, partition=partition)
        if fails:
            producer._writer.flush()  # so that there is something to take back
            raise ZeroDivisionError


def work_until_commit(bootstrap: str, path: str, run: str, dies: str) -> None:
    """One transaction, and death right `before` or `after` the database commits it."""
    database = connect(path)
    with TwoPhaseProducer(database, transactional_id="shop", bootstrap_servers=bootstrap) as producer:
        commit = Sqlite.commit

        def deadly(self: Sqlite) -> None:
            if dies == "after":
                commit(self)
            os.kill(os.getpid(), signal.SIGKILL)

        Sqlite.commit = deadly  # type: ignore[method-assign]  # the process ends with it
        _order(database, producer, run)


def recover_wrongly(bootstrap: str, path: str, commit: bool) -> None:
    """A planted mistake: the decision of the database is not asked for."""
    end = Writer.end
    Writer.end = lambda self, **_: end(self, commit=commit)  # type: ignore[method-assign]  # the process ends with it
    recover(bootstrap, path, NEVER)


def postgres_order(bootstrap: str, port: int, name: str, dies: str) -> None:
    """One transaction with PostgreSQL, and death right `before` or `after` it is committed there; or `never`."""
    database = postgres(port)
    with TwoPhaseProducer(database, transactional_id="pg", bootstrap_servers=bootstrap) as producer:
        commit = Postgres.commit

        def deadly(self: Postgres) -> None:
            if dies != "before":
                commit(self)
            if dies != "never":
                os.kill(os.getpid(), signal.SIGKILL)

        Postgres.commit = deadly  # type: ignore[method-assign]  # the process ends with it
        with producer.transaction():
            database.cursor().execute("INSERT INTO orders VALUES (%s)", (name,))
            for partition in (0, 1):
                producer.send(TOPIC, name, partition=partition)
    database.close()


def postgres(port: int) -> Any:
    from pg8000 import dbapi

    return dbapi.connect("postgres", host="127.0.0.1", port=port, database="postgres")
