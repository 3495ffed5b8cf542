"""What compaction must know of transactions while it goes over a log, from its start on.

Records of aborted transactions go at once. A marker goes only when no batch of its transaction is left before it, so
that a reader never sees records whose end it can't learn of; and the index of aborted transactions keeps an entry as
long as the marker has one. Kafka's cleaner follows the same rules.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ottla.protocol.records import CONTROL_BIT, TRANSACTIONAL_BIT
from ottla.storage.append import read_marker

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.storage.txn_index import AbortedTransaction


class SeenTransactions:
    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._to_come = deque(sorted(aborted, key=lambda transaction: transaction.first_offset))
        self._aborted: dict[int, AbortedTransaction] = {}
        """Producer id → its transaction that will turn out to be aborted."""
        self._seen_aborted: set[int] = set()
        self._seen_committed: set[int] = set()
        """Producers of whose transaction a batch is still there."""
        self.kept: AbortedTransaction | None = None
        """After `may_discard` of a marker that stays: what the index must say of it."""

    def may_discard(self, batch: memoryview, attributes: int, producer_id: int, last_offset: int) -> bool:
        """Whether the records of the batch are of no use to any reader. To be asked of every batch, in order."""
        self.kept = None
        while self._to_come and self._to_come[0].first_offset <= last_offset:
            transaction = self._to_come.popleft()
            if transaction.last_offset >= last_offset:  # else its marker is before what is gone over
                self._aborted[transaction.producer_id] = transaction
        if attributes & CONTROL_BIT:
            return self._ends_nothing(batch, producer_id)
        if not attributes & TRANSACTIONAL_BIT:
            return False
        if producer_id in self._aborted:
            self._seen_aborted.add(producer_id)
            return True
        self._seen_committed.add(producer_id)
        return False

    def _ends_nothing(self, batch: memoryview, producer_id: int) -> bool:
        marker = read_marker(bytes(batch))
        if marker is None:
            return producer_id >= 0  # one that an earlier compaction has emptied; others are not of transactions
        if marker.commits:
            if producer_id not in self._seen_committed:
                return True
            self._seen_committed.discard(producer_id)
            return False
        aborted = self._aborted.pop(producer_id, None)
        if producer_id not in self._seen_aborted:
            return True
        self._seen_aborted.discard(producer_id)
        self.kept = aborted
        return False
