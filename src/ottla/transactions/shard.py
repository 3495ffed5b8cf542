"""The transactional ids of one partition of `__transaction_state`: the only door for handlers and the runtime.

Request methods decide and return a `Result`; `replay` alone changes what the log holds. Two things the runtime must do
besides (see `ottla.runtime.transactions`): write the markers that `take_markers` hands out, once the records that were
replayed before are committed, and say so with `markers_written`; and fetch a producer id where the answer is
`NEEDS_PRODUCER_ID`, and ask again with it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from ottla.config import TransactionConfig
from ottla.errors import BrokerError, ErrorCode
from ottla.protocol.messages.describe_transactions import TransactionState as Described
from ottla.protocol.messages.end_txn import EndTxnResponse
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.protocol.messages.list_transactions import TransactionState as Listed
from ottla.replicated import Reply, Result, Token
from ottla.transactions import ending, reports, starting
from ottla.transactions.ending import End
from ottla.transactions.reports import Filter
from ottla.transactions.starting import MarkersUnderWayError, NoProducerIdError, Start
from ottla.transactions.states import TransactionState
from ottla.transactions.transaction import (
    NEVER_TIMES_OUT_MS,
    NO_PRODUCER,
    IdForgotten,
    Producer,
    Transaction,
    TransactionRecord,
)
from ottla.transactions.waiting import WAIT_MS, Waiting, WaitingRoom
from ottla.types import TopicPartition

TOMBSTONES_PER_TICK_MAX = 1_000
"""What one look for expired ids writes at most: the rest waits for the next tick, and requests get their turn."""


class _NeedsProducerId:
    """The answer of a decision that lacks a new producer id."""

    __slots__ = ()


NEEDS_PRODUCER_ID: Final = _NeedsProducerId()


class Markers(NamedTuple):
    """How a transaction ended, to be written into each of its partitions."""

    transactional_id: str
    producer: Producer
    commits: bool
    partitions: frozenset[TopicPartition]
    version: int
    """Of transactions: from 2 on the marker's epoch is higher than that of any record that it ends."""


class TransactionShard:
    __slots__ = (
        "_config",
        "_expiry_check_ms",
        "_started_later",
        "_timeouts",
        "_transactions",
        "_unmarked",
        "_waiting",
    )

    def __init__(self, config: TransactionConfig) -> None:
        self._config = config
        self._transactions: dict[str, Transaction] = {}
        self._unmarked: dict[str, Markers] = {}
        """Decided transactions whose markers nobody was told to write yet."""
        self._timeouts: list[tuple[int, str]] = []
        """When the transactions that are open should end; some of them have ended since."""
        self._started_later: dict[tuple[str, int], int] = {}
        """By id and the start that is in the log: when transactions began whose start lies in the future."""
        self._waiting = WaitingRoom()
        self._expiry_check_ms: int | None = None

    # Producers

    def init_producer_id(
        self, request: InitProducerIdRequest, token: Token, now_ms: int, fresh_id: int | None = None
    ) -> Result[TransactionRecord, InitProducerIdResponse | _NeedsProducerId]:
        """Make the caller the one producer of its transactional id."""
        try:
            start = self._start(request)
        except BrokerError as refusal:
            return Result(response=_not_initialized(refusal.code))
        return self._init(start, token, now_ms, fresh_id, None)

    def _start(self, request: InitProducerIdRequest) -> Start:
        if not request.transactional_id:
            raise BrokerError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
        if (request.producer_id < 0) != (request.producer_epoch < 0):
            raise BrokerError(ErrorCode.INVALID_REQUEST, "producer id and epoch go together")
        if request.enable2_pc and not self._config.transaction_two_phase_commit_enable:
            raise BrokerError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "commits in two phases are not enabled")
        longest_ms = self._config.transaction_max_timeout_ms
        if not request.enable2_pc and not 0 < request.transaction_timeout_ms <= longest_ms:
            raise BrokerError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        return Start(
            request.transactional_id,
            NEVER_TIMES_OUT_MS if request.enable2_pc else request.transaction_timeout_ms,
            None if request.producer_id < 0 else Producer(request.producer_id, request.producer_epoch),
            request.keep_prepared_txn,
        )

    def _init(
        self, start: Start, token: Token, now_ms: int, fresh_id: int | None, wait_until_ms: int | None
    ) -> Result[TransactionRecord, InitProducerIdResponse | _NeedsProducerId]:
        known = self._transactions.get(start.transactional_id)
        wait: Callable[[], None] = partial(
            self._wait,
            start.transactional_id,
            token,
            wait_until_ms or now_ms + WAIT_MS,
            lambda now_ms, until_ms: self._init(start, token, now_ms, fresh_id, until_ms),
            _not_initialized(ErrorCode.CONCURRENT_TRANSACTIONS),
        )
        try:
            if known is None:
                changed = starting.first(start, fresh_id, now_ms)
            else:
                changed = starting.again(known, start, fresh_id, now_ms)
        except NoProducerIdError:
            return Result(response=NEEDS_PRODUCER_ID)
        except MarkersUnderWayError:
            wait()
            return Result()
        except BrokerError as refusal:
            return Result(response=_not_initialized(refusal.code))
        if changed.state.is_prepared:
            wait()
            return Result(records=[changed])
        return Result(records=[changed], response=_initialized(changed))

    # Partitions

    def add_partitions(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: frozenset[TopicPartition],
        version: int,
        token: Token,
        now_ms: int,
    ) -> Result[TransactionRecord, ErrorCode]:
        """The producer is about to write to these partitions. `version`: of transactions, as the client speaks it."""
        return self._add(transactional_id, producer, partitions, version, token, now_ms, None)

    def _add(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: frozenset[TopicPartition],
        version: int,
        token: Token,
        now_ms: int,
        wait_until_ms: int | None,
    ) -> Result[TransactionRecord, ErrorCode]:
        known = self._transactions.get(transactional_id)
        refusal = _refusal(known, None if known is None else known.client, transactional_id, producer)
        if known is None or refusal:
            return Result(response=refusal)
        if known.state.is_prepared:
            self._wait(
                transactional_id,
                token,
                wait_until_ms or now_ms + WAIT_MS,
                lambda now_ms, until_ms: self._add(
                    transactional_id, producer, partitions, version, token, now_ms, until_ms
                ),
                ErrorCode.CONCURRENT_TRANSACTIONS,
            )
            return Result()
        if known.is_kept:
            return Result(response=ErrorCode.INVALID_TXN_STATE)
        if known.state is TransactionState.ONGOING and partitions <= known.partitions:
            return Result(response=ErrorCode.NONE)
        return Result(records=[known.with_partitions(partitions, version, now_ms)], response=ErrorCode.NONE)

    def verify_partitions(
        self, transactional_id: str, producer: Producer, partitions: frozenset[TopicPartition]
    ) -> Result[TransactionRecord, Mapping[TopicPartition, ErrorCode]]:
        """Whether the producer may write to these partitions: it has said that it would."""
        known = self._transactions.get(transactional_id)
        writer = None if known is None else Producer(known.producer_id, known.producer_epoch)
        refusal = _refusal(known, writer, transactional_id, producer)
        if not refusal and known is not None and known.state.is_prepared:
            refusal = ErrorCode.CONCURRENT_TRANSACTIONS
        if known is None or refusal:
            return Result(response=dict.fromkeys(partitions, refusal))
        is_open = known.state is TransactionState.ONGOING
        return Result(
            response={
                partition: ErrorCode.NONE
                if is_open and partition in known.partitions
                else ErrorCode.TRANSACTION_ABORTABLE
                for partition in partitions
            }
        )

    # The end

    def end(
        self, end: End, token: Token, now_ms: int, fresh_id: int | None = None
    ) -> Result[TransactionRecord, EndTxnResponse | _NeedsProducerId]:
        if not end.transactional_id:
            return Result(response=_not_ended(ErrorCode.INVALID_REQUEST))
        return self._end(end, token, now_ms, fresh_id, None)

    def _end(
        self, end: End, token: Token, now_ms: int, fresh_id: int | None, wait_until_ms: int | None
    ) -> Result[TransactionRecord, EndTxnResponse | _NeedsProducerId]:
        known = self._transactions.get(end.transactional_id)
        if known is None:
            return Result(response=_not_ended(ErrorCode.INVALID_PRODUCER_ID_MAPPING))
        try:
            decided = ending.ended(known, end, fresh_id, now_ms)
        except NoProducerIdError:
            return Result(response=NEEDS_PRODUCER_ID)
        except MarkersUnderWayError:
            self._wait(
                end.transactional_id,
                token,
                wait_until_ms or now_ms + WAIT_MS,
                lambda now_ms, until_ms: self._end(end, token, now_ms, fresh_id, until_ms),
                _not_ended(ErrorCode.CONCURRENT_TRANSACTIONS),
            )
            return Result()
        except BrokerError as refusal:
            return Result(response=_not_ended(refusal.code))
        client = (decided or known).client
        response = EndTxnResponse(producer_id=client.producer_id, producer_epoch=client.epoch)
        return Result(records=[decided] if decided is not None else (), response=response)

    def take_markers(self) -> list[Markers]:
        """What was decided since the last call: to be written once it is committed."""
        markers, self._unmarked = list(self._unmarked.values()), {}
        return markers

    def markers_written(self, markers: Markers, now_ms: int) -> Result[TransactionRecord, None]:
        """Every partition has the marker, or is gone."""
        known = self._transactions.get(markers.transactional_id)
        if known is None or not known.state.is_prepared or _markers(known) != markers:
            return Result()
        return Result(records=[known.completed(now_ms)])

    # Administration

    def describe(self, transactional_id: str) -> Result[TransactionRecord, Described]:
        return Result(response=reports.described(transactional_id, self._transactions.get(transactional_id)))

    def known(self) -> Collection[Transaction]:
        """Every id, with its last transaction."""
        return self._transactions.values()

    def find(self, wanted: Filter, now_ms: int) -> list[Listed]:
        return [reports.listed(known) for known in self._transactions.values() if wanted.takes(known, now_ms)]

    # Time

    def next_deadline_ms(self) -> int | None:
        if self._expiry_check_ms is None and self._transactions:
            return 0
        deadlines = (
            self._waiting.next_deadline_ms(),
            self._timeouts[0][0] if self._timeouts else None,
            self._expiry_check_ms if self._transactions else None,
        )
        return min((deadline_ms for deadline_ms in deadlines if deadline_ms is not None), default=None)

    def tick(self, now_ms: int) -> Result[TransactionRecord, Any]:
        """Do what is due. Stops at the first record: what comes after it must see it replayed, in the next tick."""
        if self._expiry_check_ms is None:
            self._look_at_clock(now_ms)
        ready = self._waiting.next_ready()
        if ready is not None:
            return _as_reply(ready.token, ready.ask(now_ms))
        late = self._waiting.take_late(now_ms)
        if late:
            return Result(replies=[Reply(token=one.token, response=one.too_long) for one in late])
        timed_out = self._take_timed_out(now_ms)
        if timed_out is not None:
            return Result(records=[timed_out.fenced(now_ms)])
        return Result(records=self._expired(now_ms))

    def _take_timed_out(self, now_ms: int) -> Transaction | None:
        while self._timeouts and self._timeouts[0][0] <= now_ms:
            transactional_id = heapq.heappop(self._timeouts)[1]
            known = self._transactions.get(transactional_id)
            if known is not None and self._is_timed_out(known, now_ms):
                return known
        return None

    def _is_timed_out(self, known: Transaction, now_ms: int) -> bool:
        if known.state is not TransactionState.ONGOING or known.never_times_out:
            return False
        start_ms = self._started_later.get((known.transactional_id, known.start_ms), known.start_ms)
        return start_ms + known.timeout_ms <= now_ms

    def _look_at_clock(self, now_ms: int) -> None:
        """At the first tick after the log was read: what began in the future, by another clock, began now."""
        for known in self._transactions.values():
            if known.state is TransactionState.ONGOING and known.start_ms > now_ms:
                self._started_later[known.transactional_id, known.start_ms] = now_ms
                heapq.heappush(self._timeouts, (now_ms + known.timeout_ms, known.transactional_id))

    def _expired(self, now_ms: int) -> list[TransactionRecord]:
        """Ids that nobody has used for long."""
        if self._expiry_check_ms is not None and now_ms < self._expiry_check_ms:
            return []
        unused_since_ms = now_ms - self._config.transactional_id_expiration_ms
        gone: list[TransactionRecord] = [
            IdForgotten(known.transactional_id)
            for known in self._transactions.values()
            if known.state.is_idle and known.update_ms <= unused_since_ms
        ]
        has_more = len(gone) > TOMBSTONES_PER_TICK_MAX
        self._expiry_check_ms = now_ms + (0 if has_more else self._config.transaction_remove_expired_interval_ms)
        return gone[:TOMBSTONES_PER_TICK_MAX]

    def _wait(
        self,
        transactional_id: str,
        token: Token,
        until_ms: int,
        ask: Callable[[int, int], Result[TransactionRecord, Any]],
        too_long: object,
    ) -> None:
        waiting = Waiting(token, until_ms, lambda now_ms: ask(now_ms, until_ms), too_long)
        self._waiting.add(transactional_id, waiting)

    # The log

    def replay(self, record: TransactionRecord) -> None:
        if isinstance(record, IdForgotten):
            self._transactions.pop(record.transactional_id, None)
            self._unmarked.pop(record.transactional_id, None)
            return
        self._transactions[record.transactional_id] = record
        if record.state.is_prepared:
            self._unmarked[record.transactional_id] = _markers(record)
            return
        self._unmarked.pop(record.transactional_id, None)
        self._waiting.release(record.transactional_id)
        if record.state is TransactionState.ONGOING and not record.never_times_out:
            heapq.heappush(self._timeouts, (record.start_ms + record.timeout_ms, record.transactional_id))

    def unload(self) -> Result[TransactionRecord, None]:
        """This node no longer coordinates these ids. Whoever waits tries again, and finds the new coordinator."""
        return Result(
            replies=[Reply(token=one.token, response=one.too_long) for one in self._waiting.take_all()],
        )


def _refusal(
    known: Transaction | None, allowed: Producer | None, transactional_id: str, producer: Producer
) -> ErrorCode:
    if not transactional_id:
        return ErrorCode.INVALID_REQUEST
    if known is None or allowed is None or producer.producer_id != allowed.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    return ErrorCode.NONE if producer.epoch == allowed.epoch else ErrorCode.PRODUCER_FENCED


def _markers(record: Transaction) -> Markers:
    return Markers(
        record.transactional_id,
        Producer(record.producer_id, record.producer_epoch),
        record.state is TransactionState.PREPARE_COMMIT,
        record.partitions,
        record.client_version,
    )


def _as_reply(token: Token, result: Result[TransactionRecord, Any]) -> Result[TransactionRecord, Any]:
    """The result of a caller who had been waiting."""
    if result.response is None:
        return result
    return Result(records=result.records, replies=[*result.replies, Reply(token=token, response=result.response)])


def _initialized(changed: Transaction) -> InitProducerIdResponse:
    client = changed.client
    ongoing = Producer(changed.producer_id, changed.producer_epoch) if changed.is_kept else NO_PRODUCER
    return InitProducerIdResponse(
        producer_id=client.producer_id,
        producer_epoch=client.epoch,
        ongoing_txn_producer_id=ongoing.producer_id,
        ongoing_txn_producer_epoch=ongoing.epoch,
    )


def _not_initialized(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)


def _not_ended(code: ErrorCode) -> EndTxnResponse:
    return EndTxnResponse(error_code=code, producer_id=-1, producer_epoch=-1)
