"""What a history of transactions can't show: Jepsen's aborted reads, lost and doubled writes, and parts of a whole."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from ottla.testing.checkers import Checker
from ottla.testing.history import History, Outcome
from ottla.testing.sim_copies import CopyPosition, copy_of
from ottla.testing.sim_transactions import CommittedPoll, Transaction
from ottla.types import TopicPartition


def _final(history: History) -> dict[TopicPartition, Counter[bytes]]:
    """How often each value is read in the end."""
    found: dict[TopicPartition, Counter[bytes]] = defaultdict(Counter)
    for poll in history.of(CommittedPoll, lambda poll: poll.is_final):
        found[poll.partition].update(value for _, value in poll.records)
    return found


class NoAbortedReads(Checker):
    """Readers of committed records never see a transaction that nobody asked to commit, or that was refused."""

    def violations(self, history: History) -> Iterator[str]:
        aborted = {
            txn.value: txn
            for txn in history.of(Transaction)
            if not txn.asked_to_commit or txn.outcome is Outcome.FAILED
        }
        for poll in history.of(CommittedPoll):
            for offset, value in poll.records:
                if value in aborted:
                    txn = aborted[value]
                    how = "was refused" if txn.asked_to_commit else "was never to be committed"
                    yield f"{value!r} {how}, and {poll.client} read it at {poll.ended:.4f} in {poll.partition}@{offset}"


class TransactionsAreWhole(Checker):
    """In the end every transaction is in all of its partitions, once, or in none; and a committed one is in all."""

    def violations(self, history: History) -> Iterator[str]:
        final = _final(history)
        for txn in history.of(Transaction):
            counts = [final[partition][txn.value] for partition in txn.partitions]
            if any(count > 1 for count in counts):
                yield f"{txn.value!r} is there more than once: {counts} in {list(map(str, txn.partitions))}"
            elif txn.outcome is Outcome.OK and 0 in counts:
                yield f"{txn.value!r} was committed at {txn.ended:.4f} and is missing: {counts}"
            elif len(set(counts)) > 1:
                yield f"a part of {txn.value!r} is there: {counts} in {list(map(str, txn.partitions))}"


class NoVanishedTransactions(Checker):
    """What a reader of committed records has seen is there in the end."""

    def violations(self, history: History) -> Iterator[str]:
        final = _final(history)
        for poll in history.of(CommittedPoll):
            for offset, value in poll.records:
                if not final[poll.partition][value]:
                    yield f"{poll.client} read {value!r} in {poll.partition}@{offset}, and it is gone in the end"


class CopiedExactlyOnce(Checker):
    """Every committed record below where the copiers of its partition stand was copied, once; nothing else was."""

    def violations(self, history: History) -> Iterator[str]:
        positions = {position.source: position.offset for position in history.of(CopyPosition)}
        copies: Counter[bytes] = Counter()
        wanted: set[bytes] = set()
        for poll in history.of(CommittedPoll, lambda poll: poll.is_final):
            stands_at = positions.get(poll.partition)
            if stands_at is not None:
                wanted |= {copy_of(poll.partition, offset) for offset, _ in poll.records if offset < stands_at}
            elif _is_of_copies(poll.partition, positions):
                copies.update(value for _, value in poll.records)
        for copy, count in copies.items():
            if count > 1:
                yield f"{copy!r} was copied {count} times"
            if copy not in wanted:
                yield f"{copy!r} was copied, and the group has not come so far, or there is no such record"
        for lost in sorted(wanted - copies.keys()):
            yield f"{lost!r} was not copied, and the group has gone on behind it"


def _is_of_copies(partition: TopicPartition, positions: dict[TopicPartition, int]) -> bool:
    return bool(positions) and partition.topic not in {source.topic for source in positions}


TRANSACTION_RULES: tuple[type[Checker], ...] = (
    NoAbortedReads,
    TransactionsAreWhole,
    NoVanishedTransactions,
    CopiedExactlyOnce,
)
