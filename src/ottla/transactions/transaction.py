"""One transactional id: its producer and its transaction. Every change is a new value, which is also the log's record.

Two identities. While a transaction is prepared for a commit in two phases (KIP-939), the producer that wrote it may be
gone and another instance have taken over the id to end it. The transaction keeps the producer id and epoch that its
records carry; the instance goes by `next_producer_id` and `next_producer_epoch`, which become the id's own when the
transaction is complete.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from ottla.errors import invariant
from ottla.protocol.records import NO_PRODUCER_ID
from ottla.transactions.states import NEXT, TransactionState
from ottla.types import TopicPartition
from ottla.values import value

NO_EPOCH = -1
NO_TIME = -1
EPOCH_MAX = 2**15 - 1
EPOCH_USED_MAX = EPOCH_MAX - 1
"""The last epoch that a producer gets: so that it can always be fenced by one more."""
NEVER_TIMES_OUT_MS = 2**31 - 1
"""The time-out of a producer that commits in two phases: only its own coordinator may decide."""
BUMPS_EPOCH_FROM = 2
"""The version of transactions from which on each of them ends with a new epoch (KIP-890)."""


class Producer(NamedTuple):
    """A producer id and its epoch: who a client is to the partitions."""

    producer_id: int
    epoch: int


NO_PRODUCER = Producer(NO_PRODUCER_ID, NO_EPOCH)


class IdForgotten(NamedTuple):
    """Nobody has used the transactional id for long."""

    transactional_id: str


@value
class Transaction:
    transactional_id: str
    producer_id: int
    producer_epoch: int
    previous_producer_id: int = NO_PRODUCER_ID
    """The producer id before the last change: a client that missed the answer still goes by it."""
    last_producer_epoch: int = NO_EPOCH
    """The epoch that a client had before this coordinator gave it a new one, to know a repetition of that request.
    Not in the log: after a change of coordinators such a repetition is refused, as Kafka does."""
    next_producer_id: int = NO_PRODUCER_ID
    next_producer_epoch: int = NO_EPOCH
    timeout_ms: int
    state: TransactionState
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = NO_TIME
    update_ms: int
    client_version: int = 0
    """The version of transactions that its producer speaks."""

    @property
    def client(self) -> Producer:
        """Who may speak for the id: the last that a client was told it is."""
        if self.next_producer_id == NO_PRODUCER_ID:
            return Producer(self.producer_id, self.producer_epoch)
        return Producer(self.next_producer_id, max(self.next_producer_epoch, 0))

    @property
    def is_kept(self) -> bool:
        """The client is another instance than the writer, and has taken over to end what that one prepared."""
        return self.next_producer_id != NO_PRODUCER_ID

    @property
    def never_times_out(self) -> bool:
        return self.timeout_ms == NEVER_TIMES_OUT_MS

    # Changes

    def _to(self, state: TransactionState, now_ms: int) -> Transaction:
        invariant(state in NEXT[self.state], f"{self.transactional_id}: {state.label} can't follow {self.state.label}")
        return replace(self, state=state, update_ms=now_ms)

    def with_client(self, client: Producer, last_epoch: int, timeout_ms: int, now_ms: int) -> Transaction:
        """Another instance, or the same once more, has the id from now on. There is no transaction."""
        return replace(
            self._to(TransactionState.EMPTY, now_ms),
            producer_id=client.producer_id,
            producer_epoch=client.epoch,
            previous_producer_id=self.producer_id,
            last_producer_epoch=last_epoch,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            start_ms=NO_TIME,
        )

    def kept_for(self, client: Producer, now_ms: int) -> Transaction:
        """Another instance takes over a prepared transaction, to end it."""
        return replace(
            self._to(TransactionState.ONGOING, now_ms),
            next_producer_id=client.producer_id,
            next_producer_epoch=client.epoch,
        )

    def with_partitions(self, partitions: frozenset[TopicPartition], version: int, now_ms: int) -> Transaction:
        return replace(
            self._to(TransactionState.ONGOING, now_ms),
            partitions=self.partitions | partitions,
            start_ms=self.start_ms if self.state is TransactionState.ONGOING else now_ms,
            client_version=version,
        )

    def prepared(self, *, commits: bool, version: int, next_client: Producer | None, now_ms: int) -> Transaction:
        """The decision. `next_client`: who the client is when it is carried out, if that is somebody new."""
        bumps = version >= BUMPS_EPOCH_FROM
        decided = replace(
            self._to(TransactionState.PREPARE_COMMIT if commits else TransactionState.PREPARE_ABORT, now_ms),
            producer_epoch=self.producer_epoch + bumps,
            previous_producer_id=self.client.producer_id,
            last_producer_epoch=self.client.epoch if bumps else self.last_producer_epoch,
            start_ms=self.start_ms if self.state is TransactionState.ONGOING else now_ms,
            client_version=version,
        )
        if next_client is None:
            return decided
        return replace(decided, next_producer_id=next_client.producer_id, next_producer_epoch=next_client.epoch)

    def fenced(self, now_ms: int, last_epoch: int = NO_EPOCH) -> Transaction:
        """Aborted by the coordinator: neither the writer nor its next request may take this for its own doing.

        That is why the epoch rises by two where there is room: a client that would have ended the transaction itself
        expects one. `last_epoch`: of the client, if it is its own wish to start again.
        """
        return replace(
            self._to(TransactionState.PREPARE_ABORT, now_ms),
            producer_epoch=min(self.producer_epoch + 2, EPOCH_MAX),
            last_producer_epoch=last_epoch,
            next_producer_epoch=min(self.next_producer_epoch + 2, EPOCH_MAX) if self.is_kept else NO_EPOCH,
        )

    def completed(self, now_ms: int) -> Transaction:
        """Every partition has its marker."""
        commits = self.state is TransactionState.PREPARE_COMMIT
        client = self.client
        return replace(
            self._to(TransactionState.COMPLETE_COMMIT if commits else TransactionState.COMPLETE_ABORT, now_ms),
            producer_id=client.producer_id,
            producer_epoch=client.epoch,
            next_producer_id=NO_PRODUCER_ID,
            next_producer_epoch=NO_EPOCH,
            partitions=frozenset(),
        )


TransactionRecord = Transaction | IdForgotten
