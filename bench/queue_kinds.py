"""Queues in a directory that a Python program can use without a server: Ottla's, a table in SQLite, and persist-queue.

All of them promise the same when a call returns: the messages are on disk. SQLite does with a write-ahead log that is
synced at every commit, which is also what persist-queue asks of it.
"""

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import persistqueue

import ottla

READ_AT_ONCE = 500
READ_TIMEOUT_MS = 3_000
LOCKED_FOR_S = 30.0


class QueueKind(ABC):
    """One queue, opened by one process of several."""

    name: str
    has_batches = True

    @abstractmethod
    def __init__(self, directory: Path) -> None:
        """Opens it, and makes it if it is not there."""

    @abstractmethod
    def put(self, data: bytes) -> None:
        """One message; it is on disk when this returns."""

    @abstractmethod
    def put_many(self, many: list[bytes]) -> None:
        """The same of many."""

    @abstractmethod
    def read(self) -> Iterator[int]:
        """Take messages out until none is left; yields how many came at once, when they are marked as done."""

    @abstractmethod
    def close(self) -> None: ...


class OttlaQueue(QueueKind):
    name = "ottla-queue"

    def __init__(self, directory: Path) -> None:
        self._queue = ottla.open(directory / "queue", partitions=4)
        self._number = 0

    def put(self, data: bytes) -> None:
        self._number += 1
        self._queue.enqueue(str(self._number % 97), data)

    def put_many(self, many: list[bytes]) -> None:
        self._queue.enqueue_many((str(number % 97), data) for number, data in enumerate(many))

    def read(self) -> Iterator[int]:
        with self._queue.consumer("bench", max_records=READ_AT_ONCE) as consumer:
            for _ in consumer.messages(timeout_ms=READ_TIMEOUT_MS):
                yield 1

    def close(self) -> None:
        self._queue.close()


class SqliteQueue(QueueKind):
    name = "sqlite"

    def __init__(self, directory: Path) -> None:
        directory.mkdir(exist_ok=True)
        self._database = sqlite3.connect(directory / "queue.db", timeout=LOCKED_FOR_S, isolation_level=None)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = FULL")
        self._database.execute("CREATE TABLE IF NOT EXISTS messages (id INTEGER PRIMARY KEY, data BLOB NOT NULL)")

    def put(self, data: bytes) -> None:
        self._database.execute("INSERT INTO messages (data) VALUES (?)", (data,))

    def put_many(self, many: list[bytes]) -> None:
        self._database.execute("BEGIN IMMEDIATE")
        self._database.executemany("INSERT INTO messages (data) VALUES (?)", [(data,) for data in many])
        self._database.execute("COMMIT")

    def read(self) -> Iterator[int]:
        first = "SELECT id FROM messages ORDER BY id LIMIT ?"
        while True:
            self._database.execute("BEGIN IMMEDIATE")
            taken = self._database.execute(
                f"DELETE FROM messages WHERE id IN ({first}) RETURNING data", (READ_AT_ONCE,)
            ).fetchall()
            self._database.execute("COMMIT")
            if not taken:
                return
            yield len(taken)

    def close(self) -> None:
        self._database.close()


class PersistQueue(QueueKind):
    """Its queue on SQLite, which commits every message. It has no call for many at once."""

    name = "persist-queue"
    has_batches = False

    def __init__(self, directory: Path) -> None:
        self._queue = persistqueue.SQLiteQueue(str(directory), timeout=LOCKED_FOR_S, auto_commit=True)

    def put(self, data: bytes) -> None:
        self._queue.put(data)

    def put_many(self, many: list[bytes]) -> None:
        for data in many:
            self._queue.put(data)

    def read(self) -> Iterator[int]:
        with suppress(persistqueue.Empty):
            while True:
                self._queue.get(block=False)
                yield 1

    def close(self) -> None:
        self._queue.close()


KINDS: dict[str, type[QueueKind]] = {kind.name: kind for kind in (OttlaQueue, SqliteQueue, PersistQueue)}
