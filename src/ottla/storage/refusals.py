"""Batches of idempotent producers that were refused for a reason that passes: a full disk, too few replicas in sync, a
leader that does not know yet that it is one.

Such a producer has more batches on their way. When the reason has passed meanwhile, the next one finds a gap before it,
and to be told that its sequence is out of order makes a client start a new epoch and send everything again that it has
no answer for, what is stored included: duplicates. So until the refused batch comes again those behind it are refused
for the same reason, which clients retry in order.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from ottla.errors import BrokerError, ErrorCode
from ottla.protocol.records import BATCH_HEADER
from ottla.storage.producer_state import is_before

if TYPE_CHECKING:
    from ottla.ports import Bytes

REMEMBERED_MS = 2 * 60 * 1000
"""After a batch has first been held back: if the one before it has not come by then, it never will."""
PRODUCERS_MAX = 1_000


class Numbered(NamedTuple):
    """A batch of an idempotent producer."""

    producer_id: int
    epoch: int
    sequence: int


def numbered(records: Bytes) -> Numbered | None:
    """None if the batch has no numbers, or is none."""
    try:
        batch = Numbered(*BATCH_HEADER.unpack_from(records)[9:12])
    except struct.error:
        return None
    return batch if batch.producer_id >= 0 and batch.sequence >= 0 else None


class Refusals:
    """Of one log: by producer, the first batch that was refused."""

    __slots__ = ("_by_producer",)

    def __init__(self) -> None:
        self._by_producer: dict[int, tuple[int, int, ErrorCode, int | None]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_producer)

    def note(self, producer_id: int, epoch: int, sequence: int, code: ErrorCode) -> None:
        known = self._by_producer.get(producer_id)
        if known is not None and known[0] == epoch and not is_before(sequence, known[1]):
            return
        if len(self._by_producer) >= PRODUCERS_MAX:
            del self._by_producer[next(iter(self._by_producer))]
        self._by_producer[producer_id] = epoch, sequence, code, None

    def came_again(self, producer_id: int, epoch: int, sequence: int) -> None:
        """This batch is in the log, or about to be: those before it are there too, or never will be.

        Otherwise a follower that had no room for a batch would refuse its producer when it leads, long after it got it.
        """
        refused = self._by_producer.get(producer_id)
        if refused is None:
            return
        of_epoch, first, *_ = refused
        if of_epoch < epoch or (of_epoch == epoch and not is_before(sequence, first)):
            del self._by_producer[producer_id]

    def check(self, producer_id: int, epoch: int, sequence: int, now_ms: int) -> None:
        """Raises what the producer's earlier batch was refused with, if this one would overtake that."""
        refused = self._by_producer.get(producer_id)
        if refused is None:
            return
        of_epoch, first, code, until_ms = refused
        if until_ms is None:
            until_ms = now_ms + REMEMBERED_MS
            self._by_producer[producer_id] = of_epoch, first, code, until_ms
        if epoch == of_epoch and is_before(first, sequence) and now_ms <= until_ms:
            raise BrokerError(code, f"a batch of producer {producer_id} before this one was refused: that one first")
        del self._by_producer[producer_id]
