"""A shard with everything around it that the runtime gives it: a log, a clock, producer ids, and callers who wait."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ottla.config import TransactionConfig
from ottla.errors import ErrorCode
from ottla.protocol.messages.describe_transactions import TransactionState as Described
from ottla.protocol.messages.end_txn import EndTxnResponse
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.replicated import Result, Token
from ottla.transactions.ending import End
from ottla.transactions.log_format import decode_record, encode_record
from ottla.transactions.shard import NEEDS_PRODUCER_ID, Markers, TransactionShard
from ottla.transactions.transaction import Producer, Transaction
from ottla.types import TopicPartition
from tests.ticket import Ticket

START_MS = 1_700_000_000_000
TIMEOUT_MS = 60_000
FIRST_PRODUCER_ID = 1_000
LAST_EPOCH = 2**15 - 2
"""The one after it is kept for fencing."""
CONFIG = TransactionConfig(transaction_two_phase_commit_enable=True)

P0, P1, P2 = (TopicPartition("t", index) for index in range(3))


class Host:
    """What the runtime does with a shard, without a disk. Every record goes through its bytes."""

    def __init__(self, config: TransactionConfig = CONFIG) -> None:
        self.config = config
        self.now_ms = START_MS
        self.next_producer_id = FIRST_PRODUCER_ID
        self.log: list[tuple[bytes, bytes | None]] = []
        self.shard = TransactionShard(config)
        self.to_write: list[Markers] = []
        """Markers that the runtime was told to write, and has not."""

    def call(self, decide: Callable[[TransactionShard, Token, int, int | None], Result[Any, Any]]) -> Ticket:
        ticket = Ticket()
        self._carry_out(decide(self.shard, ticket, self.now_ms, None), ticket)
        if ticket.answers and ticket.answers[0] is NEEDS_PRODUCER_ID:
            ticket.answers.clear()
            fresh_id, self.next_producer_id = self.next_producer_id, self.next_producer_id + 1
            self._carry_out(decide(self.shard, ticket, self.now_ms, fresh_id), ticket)
        return ticket

    def _carry_out(self, result: Result[Any, Any], ticket: Ticket | None) -> None:
        for record in result.records:
            encoded = encode_record(record)
            self.log.append(encoded)
            assert decode_record(*encoded) is not None
            self.shard.replay(record)
        self.to_write += self.shard.take_markers()
        if ticket is not None and result.response is not None:
            ticket.answers.append(result.response)
        for reply in result.replies:
            assert isinstance(reply.token, Ticket)
            reply.token.answers.append(reply.response)

    def after(self, ms: int) -> None:
        """Time passes; whatever is due happens when it is."""
        end_ms = self.now_ms + ms
        for _ in range(1_000):
            deadline_ms = self.shard.next_deadline_ms()
            if deadline_ms is None or deadline_ms > end_ms:
                self.now_ms = end_ms
                return
            self.now_ms = max(self.now_ms, deadline_ms)
            self._carry_out(self.shard.tick(self.now_ms), None)
        raise AssertionError("timers that fire for ever")

    def write_markers(self) -> list[Markers]:
        """Every partition gets its marker."""
        markers, self.to_write = self.to_write, []
        for one in markers:
            self._carry_out(self.shard.markers_written(one, self.now_ms), None)
        self.after(0)
        return markers

    def fail_over(self) -> None:
        """Another node becomes the coordinator: all it has is the log."""
        self._carry_out(self.shard.unload(), None)
        self.to_write = []
        self.shard = TransactionShard(self.config)
        for key, value in self.log:
            record = decode_record(key, value)
            assert record is not None
            self.shard.replay(record)
        self.to_write = self.shard.take_markers()

    # Requests

    def ask_init(self, transactional_id: str = "x", **fields: Any) -> Ticket:
        request = InitProducerIdRequest(
            transactional_id=transactional_id, **{"transaction_timeout_ms": TIMEOUT_MS, **fields}
        )
        return self.call(lambda shard, token, now_ms, fresh: shard.init_producer_id(request, token, now_ms, fresh))

    def init(self, transactional_id: str = "x", **fields: Any) -> InitProducerIdResponse:
        answer = self.ask_init(transactional_id, **fields).answer
        assert isinstance(answer, InitProducerIdResponse)
        return answer

    def producer(self, transactional_id: str = "x", **fields: Any) -> Producer:
        answer = self.init(transactional_id, **fields)
        assert not answer.error_code, ErrorCode(answer.error_code)
        return Producer(answer.producer_id, answer.producer_epoch)

    def ask_add(
        self, producer: Producer, *partitions: TopicPartition, transactional_id: str = "x", version: int = 2
    ) -> Ticket:
        return self.call(
            lambda shard, token, now_ms, _: shard.add_partitions(
                transactional_id, producer, frozenset(partitions), version, token, now_ms
            )
        )

    def add(self, producer: Producer, *partitions: TopicPartition, **fields: Any) -> ErrorCode:
        answer = self.ask_add(producer, *partitions, **fields).answer
        assert isinstance(answer, ErrorCode)
        return answer

    def ask_end(self, producer: Producer, commits: bool, version: int = 2, transactional_id: str = "x") -> Ticket:
        end = End(transactional_id, producer, commits, version)
        return self.call(lambda shard, token, now_ms, fresh: shard.end(end, token, now_ms, fresh))

    def end(self, producer: Producer, commits: bool, version: int = 2) -> EndTxnResponse:
        answer = self.ask_end(producer, commits, version).answer
        assert isinstance(answer, EndTxnResponse)
        return answer

    def commit(self, producer: Producer, version: int = 2) -> Producer:
        """And the markers are written: who the producer is from then on."""
        answer = self.end(producer, commits=True, version=version)
        assert not answer.error_code, ErrorCode(answer.error_code)
        self.write_markers()
        return Producer(answer.producer_id, answer.producer_epoch)

    def describe(self, transactional_id: str = "x") -> Described:
        answer = self.shard.describe(transactional_id).response
        assert answer is not None
        return answer

    @property
    def state(self) -> str:
        return self.describe().transaction_state


def worn_out_producer(host: Host, **start: Any) -> Producer:
    """One that has the last epoch of its id: the log says that it has been started that often."""
    host.producer(**start)
    record = decode_record(*host.log[-1])
    assert isinstance(record, Transaction)
    often = replace(record, producer_epoch=LAST_EPOCH - 1)
    host.log.append(encode_record(often))
    host.shard.replay(often)
    producer = host.producer(**start)
    assert producer == Producer(FIRST_PRODUCER_ID, LAST_EPOCH)
    return producer
