"""Transactions of a producer: all of what is sent in one becomes visible together, or none of it.

    with producer.transaction():                    # commit at the end, abort on an exception
        producer.send("out", value)
        producer.send_offsets(consumer)             # and where the group goes on, in the same transaction

A call of librdkafka that ended by its time-out can be made again and goes on where it was; so waiting is cut into
slices, in which Ctrl-C is noticed, up to `max_block_ms`. What remains is told apart by what a program can do about it:
TransactionAbortedError (do it again), ProducerFencedError (another has taken over: end), and TransactionError.
"""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from ottla.client.delivery import Outcomes
from ottla.client.errors import ProducerFencedError, TimedOutError, TransactionAbortedError, TransactionError
from ottla.client.librdkafka import logger, to_error

SLICE_S = 0.5

_FENCED = frozenset((KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH))


def call_until(deadline: float, doing: str, call: Callable[[float], object]) -> None:
    """Make a call of librdkafka's transactions, in slices, and again where it says that it may be."""
    while True:
        left = deadline - time.monotonic()
        try:
            call(min(max(left, 0.001), SLICE_S))
            return
        except KafkaException as failure:
            error = failure.args[0]
            if not error.retriable() or error.txn_requires_abort() or error.fatal():
                raise to_transaction_error(error, doing) from failure
            if left <= 0:
                raise to_error(error, f"{doing} did not end in time", TimedOutError) from failure
            logger.debug("%s goes on: %s", doing, error.str())


def to_transaction_error(error: Any, doing: str) -> TransactionError:
    """A fenced producer learns it in different ways; they are one error here."""
    if error.code() in _FENCED:
        fenced = f"{doing}: another producer with the same transactional id has taken over, this one is fenced"
        made = to_error(error, fenced, ProducerFencedError)
    elif error.txn_requires_abort():
        made = to_error(error, doing, TransactionAbortedError)
    else:
        made = to_error(error, doing, TransactionError)
    assert isinstance(made, TransactionError)
    return made


class Transaction:
    """What `Producer.transaction` returns: a context manager. It can be left early by `abort`."""

    def __init__(self, raw: Any, outcomes: Outcomes, patience_s: float) -> None:
        self._raw = raw
        self._outcomes = outcomes
        self._patience_s = patience_s
        self._open = False

    def __enter__(self) -> "Transaction":
        try:
            self._raw.begin_transaction()
        except KafkaException as failure:
            raise to_transaction_error(failure.args[0], "beginning a transaction") from failure
        self._open = True
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if not self._open:
            return
        if error is None:
            self.commit()
            return
        try:
            self.abort()
        except (TransactionError, TimedOutError) as failure:
            # The error that ended the block is the one to be seen; nothing of the transaction is committed anyhow.
            logger.warning("%s", failure)

    def commit(self) -> None:
        """Make it visible. TransactionAbortedError: it is not, and may be tried again from its beginning.
        TimedOutError: it is not known which; the next producer with the same id settles it."""
        self._open = False
        try:
            call_until(self._deadline(), "committing a transaction", self._raw.commit_transaction)
        except TransactionAbortedError:
            self.abort()
            raise

    def abort(self) -> None:
        """Take it back. The futures of its records that are still waiting end with an error."""
        self._open = False
        call_until(self._deadline(), "aborting a transaction", self._raw.abort_transaction)
        self._outcomes.take_unseen()  # whoever aborts knows that these records were not delivered

    def _deadline(self) -> float:
        return time.monotonic() + self._patience_s
