"""InitProducerId: who the client of a transactional id is from now on, and what becomes of an open transaction.

The answer is a new value of the `Transaction`; two errors say what is missing for one. A client may name the producer
id and epoch that it has (KIP-360): then it is the same instance, which goes on with a new epoch, and is refused if
another has taken over meanwhile.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.errors import BrokerError, ErrorCode
from ottla.transactions.states import TransactionState
from ottla.transactions.transaction import EPOCH_USED_MAX, NO_EPOCH, Producer, Transaction


class Start(NamedTuple):
    """What a client asks for when it starts, or starts again."""

    transactional_id: str
    timeout_ms: int
    expected: Producer | None
    """Who it was, if it says so."""
    keeps_prepared: bool
    """Whether the transaction that is open must stay so, for the client to end it."""


class NoProducerIdError(Exception):
    """It can't be decided without a new producer id."""


class MarkersUnderWayError(Exception):
    """Markers are being written: ask again when that is done."""


def first(start: Start, fresh_id: int | None, now_ms: int) -> Transaction:
    """Nothing is known of the id yet."""
    if fresh_id is None:
        raise NoProducerIdError
    return Transaction(
        transactional_id=start.transactional_id,
        producer_id=fresh_id,
        producer_epoch=0,
        timeout_ms=start.timeout_ms,
        state=TransactionState.EMPTY,
        update_ms=now_ms,
    )


def again(known: Transaction, start: Start, fresh_id: int | None, now_ms: int) -> Transaction:
    """A prepared one among the answers is the abort of the transaction that was open: the client must wait for it."""
    if start.expected is not None:
        _check_expected(known, start.expected)
    if known.state.is_prepared:
        raise MarkersUnderWayError
    if known.state is not TransactionState.ONGOING:
        return _renewed(known, start, fresh_id, now_ms)
    if start.keeps_prepared:
        return _kept(known, fresh_id, now_ms)
    return known.fenced(now_ms, NO_EPOCH if start.expected is None else start.expected.epoch)


def next_client(client: Producer, fresh_id: int | None) -> Producer:
    """The epoch after a client's own; the first of a new producer id where there is none."""
    if client.epoch < EPOCH_USED_MAX:
        return Producer(client.producer_id, client.epoch + 1)
    if fresh_id is None:
        raise NoProducerIdError
    return Producer(fresh_id, 0)


def _check_expected(known: Transaction, expected: Producer) -> None:
    """It is the client, or was until an answer of ours that it may have missed."""
    client = known.client
    if expected == client:
        return
    missed_epoch = expected.producer_id == client.producer_id and expected.epoch == known.last_producer_epoch
    missed_id = expected.producer_id == known.previous_producer_id and expected.epoch >= EPOCH_USED_MAX
    if known.last_producer_epoch == NO_EPOCH or not (missed_epoch or missed_id):
        raise BrokerError(
            ErrorCode.PRODUCER_FENCED,
            f"{known.transactional_id}: producer {expected.producer_id} with epoch {expected.epoch} was replaced by"
            f" {client.producer_id} with epoch {client.epoch}",
        )


def _renewed(known: Transaction, start: Start, fresh_id: int | None, now_ms: int) -> Transaction:
    client, expected = known.client, start.expected
    if expected is not None and expected != client:
        if expected.epoch != known.last_producer_epoch:
            raise BrokerError(ErrorCode.PRODUCER_FENCED)
        # A repetition: the epoch was given, if it can be, and the answer was lost or had to wait for markers.
        given = client if client.epoch <= EPOCH_USED_MAX else next_client(client, fresh_id)
        return known.with_client(given, known.last_producer_epoch, start.timeout_ms, now_ms)
    last_epoch = NO_EPOCH if expected is None else client.epoch
    return known.with_client(next_client(client, fresh_id), last_epoch, start.timeout_ms, now_ms)


def _kept(known: Transaction, fresh_id: int | None, now_ms: int) -> Transaction:
    if not known.never_times_out:
        raise BrokerError(
            ErrorCode.INVALID_TXN_STATE, f"the transaction of {known.transactional_id} is not one of two phases"
        )
    return known.kept_for(next_client(known.client, fresh_id), now_ms)
