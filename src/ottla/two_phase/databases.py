"""The table in the database that says which transaction of Ottla was committed last, and by whom.

    ottla_transactions (transactional_id, owner, producer_id, producer_epoch)

`owner` is a name that each program makes up when it takes over an id. A transaction writes its identity only where it
is still the owner: one that was replaced meanwhile is refused by its own database.
"""

import sqlite3
from abc import ABC, abstractmethod
from typing import Any, Protocol

from ottla.client.errors import TransactionError
from ottla.errors import ConfigError
from ottla.two_phase.writer import NOBODY, Identity

TABLE = """
CREATE TABLE IF NOT EXISTS ottla_transactions (
    transactional_id VARCHAR(249) PRIMARY KEY,
    owner VARCHAR(64) NOT NULL,
    producer_id BIGINT NOT NULL,
    producer_epoch INTEGER NOT NULL
)
"""
CLAIM = """
INSERT INTO ottla_transactions VALUES ({0}, {0}, {0}, {0})
ON CONFLICT (transactional_id) DO UPDATE SET owner = excluded.owner
"""
NAMED = "SELECT producer_id, producer_epoch FROM ottla_transactions WHERE transactional_id = {0}"
NAME = """
UPDATE ottla_transactions SET producer_id = {0}, producer_epoch = {0} WHERE transactional_id = {0} AND owner = {0}
"""


class Connection(Protocol):
    """Of PEP 249."""

    def cursor(self) -> Any: ...
    def commit(self) -> None: ...
    def rollback(self) -> None: ...


class Database(ABC):
    """A connection that the program uses as well, in the transactions that are begun here."""

    placeholder: str

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @abstractmethod
    def begin(self) -> None: ...

    @abstractmethod
    def commit(self) -> None: ...

    @abstractmethod
    def rollback(self) -> None:
        """Also where there is nothing to be rolled back."""

    def claim(self, transactional_id: str, owner: str) -> Identity:
        """Make `owner` the only one that may name transactions of the id. Returns the one that was named last."""
        self.begin()
        try:
            self._run(TABLE)
            self._run(CLAIM, transactional_id, owner, *NOBODY)
            found = self._run(NAMED, transactional_id).fetchone()
            self.commit()
        except BaseException:
            self.rollback()
            raise
        return Identity(int(found[0]), int(found[1]))

    def name(self, transactional_id: str, owner: str, identity: Identity) -> bool:
        """Within the program's transaction. False: somebody else is the owner now."""
        return bool(self._run(NAME, *identity, transactional_id, owner).rowcount == 1)

    def _run(self, statement: str, *values: object) -> Any:
        cursor = self._connection.cursor()
        cursor.execute(statement.format(self.placeholder), values)
        return cursor


class Sqlite(Database):
    placeholder = "?"
    FULL = 2

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__(connection)
        self._sqlite = connection
        (synchronous,) = connection.execute("PRAGMA synchronous").fetchone()
        if synchronous < self.FULL:
            raise ConfigError("PRAGMA synchronous must be FULL: a commit that a power failure undoes decides nothing")

    def begin(self) -> None:
        if self._sqlite.in_transaction:
            raise ConfigError("the connection has a transaction open already; commit it first")
        self._sqlite.execute("BEGIN IMMEDIATE")

    def name(self, transactional_id: str, owner: str, identity: Identity) -> bool:
        if not self._sqlite.in_transaction:
            raise TransactionError(
                "the database's transaction was ended inside the block: use the block's end for that"
            )
        return super().name(transactional_id, owner, identity)

    def commit(self) -> None:
        self._sqlite.execute("COMMIT")

    def rollback(self) -> None:
        if self._sqlite.in_transaction:
            self._sqlite.execute("ROLLBACK")


class Postgres(Database):
    """Any driver of PEP 249 with %s in its statements, such as psycopg and pg8000, and autocommit off."""

    placeholder = "%s"

    def begin(self) -> None:
        self._connection.rollback()  # the first statement begins one, at a snapshot of that moment

    def commit(self) -> None:
        self._connection.commit()

    def rollback(self) -> None:
        self._connection.rollback()


def database_for(connection: Any) -> Database:
    if isinstance(connection, sqlite3.Connection):
        return Sqlite(connection)
    if getattr(connection, "autocommit", False):
        raise ConfigError("the connection commits every statement by itself; switch autocommit off")
    return Postgres(connection)
