"""What a partition knows of its idempotent and transactional producers.

An idempotent producer numbers its records per partition, so a retry is recognised and a gap refused. The last five
batches of each producer are remembered, since a client may have five requests under way; a repetition of any of them is
answered with the offset that the original got.

A transaction is open from its producer's first batch to the marker that the coordinator writes. The first offset of the
oldest one bounds what readers of committed records may see; a marker counts only once the high watermark has passed it,
since until then a new leader may not have it.

All of this follows from the records, so it is never written on its own: a snapshot now and then, and the batches after
it, give it back.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from ottla.errors import BrokerError, ErrorCode
from ottla.storage.producer_snapshot import SnapshotEntry

BATCHES_KEPT = 5
NO_SEQUENCE = -1
NO_OFFSET = -1
OF_A_STRANGER = -2
"""In place of an offset: nothing was known of the producer, which was not at its beginning."""
SEQUENCE_MAX = 2**31 - 1
SEQUENCES = 2**31
"""After so many a producer begins at 0 again."""

Batch: TypeAlias = "tuple[int, int, int, int]"
"""A batch that a producer wrote: its first and last sequence number, its first and last offset. A plain tuple, since
one is made for every append."""
_FIRST_SEQUENCE, _LAST_SEQUENCE, _FIRST_OFFSET, _LAST_OFFSET = range(4)


class Marker(NamedTuple):
    """The end of a transaction, as the coordinator writes it."""

    commits: bool
    coordinator_epoch: int


class Ended(NamedTuple):
    """A transaction that a marker has ended."""

    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool
    last_stable_offset: int
    """The first offset that is still undecided after it."""


class Producer:
    """The last that was heard of one producer."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_sequence",
        "last_timestamp_ms",
        "markers",
        "producer_id",
        "txn_first_offset",
    )

    def __init__(self, producer_id: int, epoch: int) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.coordinator_epoch = -1
        self.last_timestamp_ms = -1
        self.txn_first_offset = NO_OFFSET
        self.batches: list[Batch] = []
        """At most `BATCHES_KEPT`, newest last."""
        self.last_sequence = NO_SEQUENCE
        """Of the newest batch."""
        self.markers = 0
        """How many transactions of it have ended since the log was opened."""

    def start_epoch(self, epoch: int) -> None:
        """Sequence numbers begin anew."""
        self.epoch = epoch
        self.batches.clear()
        self.last_sequence = NO_SEQUENCE


class ProducerState:
    __slots__ = ("_completed", "_expected", "_open", "producers")

    def __init__(self) -> None:
        self.producers: dict[int, Producer] = {}
        self._open: dict[int, int] = {}
        """First offset → producer id of the open transactions. They begin in log order, so this is sorted."""
        self._completed: dict[int, int] = {}
        """First offset → marker's offset of those whose marker the high watermark may not have passed."""
        self._expected: dict[int, tuple[int, int]] = {}
        """Producer id → epoch and sequence number of the first batch of a transaction that is not let in yet."""

    # Data

    def append(
        self,
        producer_id: int,
        epoch: int,
        base_sequence: int,
        count: int,
        base_offset: int,
        timestamp_ms: int,
        transactional: bool,
        check_sequence: bool,
    ) -> int:
        """Check a batch that the leader is about to append, and remember it.

        Returns `NO_OFFSET`, or `OF_A_STRANGER`; or the first offset of the batch that this one repeats: then nothing
        must be appended.
        """
        last_sequence = (base_sequence + count - 1) % SEQUENCES if base_sequence >= 0 else NO_SEQUENCE
        producer = self.producers.get(producer_id)
        appended = NO_OFFSET
        if producer is None:
            # Nothing is known of it: it is new, or was forgotten. As in Kafka, any sequence number will do then.
            producer = self._new(producer_id, epoch)
            if base_sequence > 0 and check_sequence:
                appended = OF_A_STRANGER
        elif epoch != producer.epoch:
            check_epoch(producer, epoch)
            if check_sequence and base_sequence != 0:
                raise _out_of_order(producer, epoch, base_sequence)
        elif check_sequence and (producer.last_sequence + 1) % SEQUENCES != base_sequence:
            return _repeated(producer, base_sequence, last_sequence)
        if not transactional and producer.txn_first_offset >= 0:
            raise BrokerError(
                ErrorCode.INVALID_TXN_STATE, f"producer {producer_id} has an open transaction and wrote outside of it"
            )
        batch = (base_sequence, last_sequence, base_offset, base_offset + count - 1)
        self._remember(producer, epoch, batch, timestamp_ms, transactional)
        return appended

    def replay(
        self,
        producer_id: int,
        epoch: int,
        base_sequence: int,
        base_offset: int,
        last_offset: int,
        *,
        timestamp_ms: int,
        transactional: bool,
    ) -> None:
        """Remember a batch that a leader has already accepted."""
        producer = self.producers.get(producer_id) or self._new(producer_id, epoch)
        last_sequence = last_sequence_of(base_sequence, last_offset - base_offset + 1)
        batch = (base_sequence, last_sequence, base_offset, last_offset)
        self._remember(producer, epoch, batch, timestamp_ms, transactional)

    def has_all_before(self, producer_id: int, epoch: int, sequence: int, count: int) -> bool:
        """Whether this batch is the one that is expected, or repeats one that is known."""
        producer = self.producers.get(producer_id)
        if producer is None or producer.epoch != epoch:
            return False
        last_sequence = last_sequence_of(sequence, count)
        return sequence == (producer.last_sequence + 1) % SEQUENCES or any(
            batch[_FIRST_SEQUENCE] == sequence and batch[_LAST_SEQUENCE] == last_sequence for batch in producer.batches
        )

    def misses_some_before(self, producer_id: int, epoch: int, sequence: int) -> bool:
        """Whether this batch comes after the one that is expected, so that others belong in between."""
        producer = self.producers.get(producer_id)
        if producer is None or epoch < producer.epoch:
            return False
        expected = (producer.last_sequence + 1) % SEQUENCES if epoch == producer.epoch else 0
        return is_before(expected, sequence)

    def _new(self, producer_id: int, epoch: int) -> Producer:
        producer = self.producers[producer_id] = Producer(producer_id, epoch)
        return producer

    def _remember(self, producer: Producer, epoch: int, batch: Batch, timestamp_ms: int, transactional: bool) -> None:
        batches = producer.batches
        if epoch != producer.epoch:
            producer.start_epoch(epoch)
        batches.append(batch)
        if len(batches) > BATCHES_KEPT:
            del batches[0]
        producer.last_sequence = batch[_LAST_SEQUENCE]
        producer.last_timestamp_ms = timestamp_ms
        if transactional and producer.txn_first_offset < 0:
            producer.txn_first_offset = batch[_FIRST_OFFSET]
            self._open[batch[_FIRST_OFFSET]] = producer.producer_id
            self._expected.pop(producer.producer_id, None)

    # Transactions: a batch that begins one is appended only if the coordinator knows of it.

    def has_open_transaction(self, producer_id: int, epoch: int) -> bool:
        producer = self.producers.get(producer_id)
        return producer is not None and producer.txn_first_offset >= 0 and producer.epoch == epoch

    def require_transaction(self, producer_id: int, epoch: int) -> None:
        """Refuse a batch that would begin a transaction of which no coordinator was asked."""
        if producer_id not in self._expected and not self.has_open_transaction(producer_id, epoch):
            raise BrokerError(
                ErrorCode.INVALID_TXN_STATE, f"nobody was asked about a transaction of producer {producer_id}"
            )

    def markers_of(self, producer_id: int) -> int:
        """Who asks the coordinator compares this before and after: a transaction that has ended in between is not the
        one that was asked about.
        """
        producer = self.producers.get(producer_id)
        return 0 if producer is None else producer.markers

    def expect(self, producer_id: int, epoch: int, sequence: int) -> None:
        """This batch would begin a transaction, and the coordinator is being asked about it."""
        expected = self._expected.get(producer_id)
        if expected is None or epoch > expected[0] or (epoch == expected[0] and sequence < expected[1]):
            self._expected[producer_id] = epoch, sequence

    def check_expected(self, producer_id: int, epoch: int, sequence: int) -> None:
        """Refuse a batch that would overtake one that was sent before it, and has yet to be let in."""
        expected = self._expected.get(producer_id)
        if expected is not None and epoch == expected[0] and sequence > expected[1]:
            raise BrokerError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {producer_id} sent sequence number {sequence}, and {expected[1]} before it was not let in",
            )

    # Transaction markers

    def check_marker(self, producer_id: int, epoch: int, marker: Marker) -> None:
        """Refuse a marker of a producer or coordinator that another has taken over from."""
        producer = self.producers.get(producer_id)
        if producer is None:
            return
        check_epoch(producer, epoch)
        if marker.coordinator_epoch < producer.coordinator_epoch:
            raise BrokerError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"the coordinator of epoch {marker.coordinator_epoch} was replaced by {producer.coordinator_epoch}",
            )

    def end_transaction(
        self, producer_id: int, epoch: int, marker: Marker, offset: int, timestamp_ms: int
    ) -> Ended | None:
        """A marker is at `offset`. None if it ends nothing: there was no data in this partition."""
        producer = self.producers.get(producer_id) or self._new(producer_id, epoch)
        first_offset = producer.txn_first_offset
        if epoch != producer.epoch:
            producer.start_epoch(epoch)
        producer.coordinator_epoch = marker.coordinator_epoch
        producer.markers += 1
        producer.last_timestamp_ms = timestamp_ms
        producer.txn_first_offset = NO_OFFSET
        if first_offset < 0:
            return None
        self._open.pop(first_offset, None)
        self._completed[first_offset] = offset
        stable = next(iter(self._open), offset + 1)
        return Ended(producer_id, first_offset, offset, not marker.commits, stable)

    def oldest_open(self, default: int) -> int:
        """Where the oldest transaction that is open begins; `default` if none is."""
        return next(iter(self._open), default)

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Where the oldest transaction begins that is open, or whose marker is not below the high watermark."""
        oldest = next(iter(self._open), None)
        undecided = [first for first, marker in self._completed.items() if marker >= high_watermark]
        if oldest is not None:
            undecided.append(oldest)
        return min(undecided, default=None)

    def forget_completed(self, high_watermark: int) -> None:
        """The high watermark has passed these markers for good."""
        if self._completed:
            self._completed = {first: marker for first, marker in self._completed.items() if marker >= high_watermark}

    @property
    def has_transactions(self) -> bool:
        return bool(self._open or self._completed)

    # The whole

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Forget the producers that have been silent for so long; one with an open transaction is not silent."""
        silent_since = now_ms - expiration_ms
        gone = [
            producer_id
            for producer_id, producer in self.producers.items()
            if producer.last_timestamp_ms <= silent_since and producer.txn_first_offset < 0
        ]
        for producer_id in gone:
            del self.producers[producer_id]
        for producer_id in [unknown for unknown in self._expected if unknown not in self.producers]:
            del self._expected[producer_id]

    def active(self) -> list[Producer]:
        return list(self.producers.values())

    def snapshot(self) -> list[SnapshotEntry]:
        """One entry for each batch that is remembered, oldest first: who reads them in order ends with the newest."""
        return [entry for producer in self.producers.values() for entry in _snapshot_entries(producer)]

    @classmethod
    def from_snapshot(cls, entries: list[SnapshotEntry]) -> ProducerState:
        state = cls()
        for entry in entries:
            producer = state.producers.get(entry.producer_id)
            if producer is None:
                producer = state._new(entry.producer_id, entry.epoch)
            _restore(producer, entry)
        opened = [(entry.txn_first_offset, entry.producer_id) for entry in entries if entry.txn_first_offset >= 0]
        state._open = dict(sorted(opened))
        return state


def last_sequence_of(base_sequence: int, count: int) -> int:
    """Sequence numbers start again at 0 after the largest 32-bit integer."""
    if base_sequence < 0:
        return NO_SEQUENCE
    return (base_sequence + count - 1) % SEQUENCES


def check_epoch(producer: Producer, epoch: int) -> None:
    if epoch < producer.epoch:
        raise BrokerError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"epoch {epoch} of producer {producer.producer_id} is older than {producer.epoch}, which has written since",
        )


def is_before(sequence: int, other: int) -> bool:
    """Whether a batch comes before another: the shorter way around, for numbers begin at 0 again."""
    return 0 < (other - sequence) % SEQUENCES < SEQUENCES // 2


def _repeated(producer: Producer, base_sequence: int, last_sequence: int) -> int:
    """The first offset of the batch that this one repeats. If it is none of those, batches before it are missing."""
    for batch in producer.batches:
        if batch[_FIRST_SEQUENCE] == base_sequence and batch[_LAST_SEQUENCE] == last_sequence:
            return batch[_FIRST_OFFSET]
    raise _out_of_order(producer, producer.epoch, base_sequence)


def _out_of_order(producer: Producer, epoch: int, sequence: int) -> BrokerError:
    return BrokerError(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"producer {producer.producer_id} sent sequence number {sequence} in epoch {epoch}"
        f" after {producer.last_sequence} in epoch {producer.epoch}",
    )


def _snapshot_entries(producer: Producer) -> list[SnapshotEntry]:
    batches = producer.batches or [(NO_SEQUENCE, NO_SEQUENCE, NO_OFFSET, NO_OFFSET)]
    return [
        SnapshotEntry(
            producer_id=producer.producer_id,
            epoch=producer.epoch,
            last_sequence=batch[_LAST_SEQUENCE],
            last_offset=batch[_LAST_OFFSET],
            offset_delta=batch[_LAST_OFFSET] - batch[_FIRST_OFFSET],
            timestamp_ms=producer.last_timestamp_ms,
            coordinator_epoch=producer.coordinator_epoch,
            txn_first_offset=producer.txn_first_offset,
        )
        for batch in batches
    ]


def _restore(producer: Producer, entry: SnapshotEntry) -> None:
    if entry.epoch != producer.epoch:
        producer.start_epoch(entry.epoch)
    producer.coordinator_epoch = entry.coordinator_epoch
    producer.last_timestamp_ms = entry.timestamp_ms
    producer.txn_first_offset = entry.txn_first_offset
    if entry.last_offset < 0:
        return
    first_sequence = NO_SEQUENCE
    if entry.last_sequence >= 0:
        first_sequence = (entry.last_sequence - entry.offset_delta) % SEQUENCES
    first_offset = entry.last_offset - entry.offset_delta
    producer.batches.append((first_sequence, entry.last_sequence, first_offset, entry.last_offset))
    producer.last_sequence = entry.last_sequence
