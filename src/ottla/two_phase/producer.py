"""The order of the steps, and what is done about a transaction that an earlier start has left open."""

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from ottla.client.errors import ClientError, ClosedError, ProducerFencedError, TransactionError
from ottla.client.librdkafka import logger
from ottla.client.serialization import serialized, to_bytes
from ottla.client.settings import Servers, require
from ottla.protocol.records import Record
from ottla.two_phase.brokers import Brokers
from ottla.two_phase.databases import database_for
from ottla.two_phase.writer import Writer

Headers = Mapping[str, bytes | str | None] | Sequence[tuple[str, bytes | str | None]]


class TwoPhaseProducer:
    """See the head of the package. For one thread, like most connections to databases.

    `connection`: of sqlite3, or of a driver for PostgreSQL. Between transactions the program may use it as it likes.
    `transactional_id`: the name of who writes, the same after a restart. Starting fences whoever had it before, and
        settles what that one has left open.
    `patience_s`: how long brokers may be away before a call gives up.
    """

    def __init__(
        self,
        connection: Any,
        *,
        transactional_id: str,
        bootstrap_servers: Servers = "localhost:9092",
        patience_s: float = 60.0,
    ) -> None:
        require(bool(transactional_id), "transactional_id must not be empty")
        self.transactional_id = transactional_id
        self._database = database_for(connection)
        self._brokers = Brokers(bootstrap_servers)
        self._writer = Writer(self._brokers, transactional_id, patience_s)
        self._owner = uuid.uuid4().hex
        self._settled = False
        self._open = False
        self._closed = False
        self._fenced = False

    def start(self) -> Self:
        """Take over the id, and settle what was left open: as the database has decided."""
        if self._closed:
            raise ClosedError("the producer was closed")
        if self._fenced:
            raise self._fenced_error()
        if not self._settled:
            left = self._writer.take_over()
            # Nobody else can make the database name a transaction from here on: what it names now is the decision.
            named = self._database.claim(self.transactional_id, self._owner)
            if left is not None:
                logger.info(
                    "%s: an open transaction is %s", self.transactional_id, "committed" if left == named else "aborted"
                )
                self._writer.end(commit=left == named)
            self._settled = True
        return self

    def close(self) -> None:
        """What is open stays open until the next start."""
        self._closed = True
        self._brokers.close()

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """What is done to the database and sent inside becomes visible at the end, or, on an exception, none of it.

        It returns when the database has committed. If the brokers are away at that moment, the records become visible
        later: the next transaction, or the next start, sees to it first.
        """
        if self._open:
            raise TransactionError("transactions of one producer do not nest")
        self.start()
        self._database.begin()
        self._open = True
        try:
            yield
            self._writer.flush()
        except BaseException:
            self._abort()
            raise
        finally:
            self._open = False
        self._commit()

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        """Add a record to the transaction. Values and keys as for `Producer.send`."""
        if not self._open:
            raise TransactionError("no transaction is open; use `with producer.transaction()`")
        pairs = headers.items() if isinstance(headers, Mapping) else headers or ()
        record = Record(
            key=serialized(to_bytes, key, "key"),
            value=serialized(to_bytes, value, "value"),
            headers=tuple((name, to_bytes(data)) for name, data in pairs),
            timestamp_ms=int(time.time() * 1000) if timestamp_ms is None else timestamp_ms,
        )
        self._writer.add(topic, record, partition)

    def _commit(self) -> None:
        if not self._writer.has_written:
            # A transaction without records has no end, and so no identity of its own that the database could name.
            self._database.commit()
            return
        self._settled = False
        try:
            if not self._database.name(self.transactional_id, self._owner, self._writer.identity):
                self._fenced = True
                raise self._fenced_error()
            self._database.commit()
        except BaseException:
            self._roll_back()
            raise
        self._end(commit=True)

    def _abort(self) -> None:
        """Nothing names the transaction, so if its end fails here, the next start brings it about."""
        self._roll_back()
        if self._writer.has_written:
            self._settled = False
            self._end(commit=False)
        else:
            self._writer.forget()

    def _end(self, *, commit: bool) -> None:
        """What was decided is carried out. No failure changes the decision: the next start, or the producer that has
        taken over, carries it out then."""
        try:
            self._writer.end(commit=commit)
            self._settled = True
        except ProducerFencedError as failure:
            self._fenced = True
            logger.warning("%s", failure)
        except ClientError as failure:
            logger.warning("%s; it is %s later", failure, "committed" if commit else "aborted")

    def _roll_back(self) -> None:
        try:
            self._database.rollback()
        except Exception as failure:  # whichever the driver has; a connection that is gone has rolled back
            logger.warning("%s: rolling back: %r", self.transactional_id, failure)

    def _fenced_error(self) -> ProducerFencedError:
        return ProducerFencedError(f"{self.transactional_id}: another producer has taken over, this one is fenced")
