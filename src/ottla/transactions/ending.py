"""EndTxn: what a request to commit or abort leads to.

    version 1   the client's epoch must be the id's own; a repetition looks like the request itself, so the state alone
                says what it is: done, under way, or something else than was asked for.
    version 2   every end raises the epoch: a repetition comes with the one before, and a request with the current epoch
                is about the next transaction. An abort without a transaction is fine, and raises the epoch too.

| state          | abort, again | abort     | commit, again | commit            |
|----------------|--------------|-----------|---------------|-------------------|
| Empty          | fenced       | new epoch | fenced        | INVALID_TXN_STATE |
| CompleteAbort  | done         | new epoch | INVALID_TXN_STATE | INVALID_TXN_STATE |
| CompleteCommit | INVALID_TXN_STATE | new epoch | done     | INVALID_TXN_STATE |
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.errors import BrokerError, ErrorCode
from ottla.transactions.starting import MarkersUnderWayError, next_client
from ottla.transactions.states import TransactionState
from ottla.transactions.transaction import (
    BUMPS_EPOCH_FROM,
    EPOCH_MAX,
    EPOCH_USED_MAX,
    Producer,
    Transaction,
)


class End(NamedTuple):
    transactional_id: str
    client: Producer
    commits: bool
    version: int
    """Of transactions: from the version of the request."""


def ended(known: Transaction, end: End, fresh_id: int | None, now_ms: int) -> Transaction | None:
    """The prepared transaction. None: it is done already, and the client hears the same as the first time."""
    if end.version >= BUMPS_EPOCH_FROM:
        return _ended_with_new_epoch(known, end, fresh_id, now_ms)
    _check_id(known, end.client.producer_id)
    if end.client.epoch != known.client.epoch:
        raise _fenced(known)
    if known.state is TransactionState.ONGOING:
        return known.prepared(
            commits=end.commits, version=end.version, next_client=known.client if known.is_kept else None, now_ms=now_ms
        )
    _check_repetition(known, end.commits)
    return None


def _ended_with_new_epoch(known: Transaction, end: End, fresh_id: int | None, now_ms: int) -> Transaction | None:
    repeats = _is_repetition(known, end.client)
    if not repeats:
        _check_id(known, end.client.producer_id)
        if end.client.epoch != known.client.epoch:
            raise _fenced(known)
        if known.state.is_prepared:
            raise MarkersUnderWayError  # it is about the next one, which has not begun
        return _prepared(known, end, fresh_id, now_ms)
    if known.state in (TransactionState.EMPTY, TransactionState.ONGOING):
        raise _fenced(known)
    _check_repetition(known, end.commits)
    return None


def _prepared(known: Transaction, end: End, fresh_id: int | None, now_ms: int) -> Transaction:
    if known.state is not TransactionState.ONGOING and end.commits:
        raise _invalid(known)
    after = next_client(known.client, fresh_id)
    is_new = known.is_kept or after.producer_id != known.client.producer_id
    return known.prepared(
        commits=end.commits, version=end.version, next_client=after if is_new else None, now_ms=now_ms
    )


def _is_repetition(known: Transaction, client: Producer) -> bool:
    """Whether the client has the epoch, or the producer id, that it had before the last end."""
    current = known.client
    if current.epoch == EPOCH_MAX:
        return False  # the coordinator has fenced it: nobody was ever given that epoch
    if client.producer_id == current.producer_id:
        return client.epoch + 1 == current.epoch
    return client.producer_id == known.previous_producer_id and client.epoch == EPOCH_USED_MAX and not current.epoch


def _check_repetition(known: Transaction, commits: bool) -> None:
    """Returns if that is what was done."""
    match known.state, commits:
        case (TransactionState.COMPLETE_COMMIT, True) | (TransactionState.COMPLETE_ABORT, False):
            return
        case (TransactionState.PREPARE_COMMIT, True) | (TransactionState.PREPARE_ABORT, False):
            raise MarkersUnderWayError
    raise _invalid(known)


def _check_id(known: Transaction, producer_id: int) -> None:
    if producer_id != known.client.producer_id:
        raise BrokerError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)


def _fenced(known: Transaction) -> BrokerError:
    return BrokerError(
        ErrorCode.PRODUCER_FENCED, f"{known.transactional_id} has a producer with epoch {known.client.epoch}"
    )


def _invalid(known: Transaction) -> BrokerError:
    return BrokerError(ErrorCode.INVALID_TXN_STATE, f"{known.transactional_id} is {known.state.label}")
