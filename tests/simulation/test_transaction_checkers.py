"""Each rule on transactions rejects a history that breaks it, and accepts one that keeps it."""

import pytest

from ottla.testing.checkers import Checker, check
from ottla.testing.history import History, Operation, Outcome
from ottla.testing.sim_copies import CopyPosition, copy_of
from ottla.testing.sim_transactions import CommittedPoll, Transaction
from ottla.testing.transaction_checkers import (
    CopiedExactlyOnce,
    NoAbortedReads,
    NoVanishedTransactions,
    TransactionsAreWhole,
)
from ottla.types import TopicPartition

HERE, THERE, COPIES = TopicPartition("ledger", 0), TopicPartition("ledger", 1), TopicPartition("copies", 0)


def history(*operations: Operation) -> History:
    return History(operations=list(operations))


def wrote(value: bytes, outcome: Outcome, *, asked: bool = True) -> Transaction:
    txn = Transaction(client="t", began=0, value=value, partitions=(HERE, THERE), asked_to_commit=asked)
    txn.end(outcome, 1)
    return txn


def read(partition: TopicPartition, *values: bytes, is_final: bool = False) -> CommittedPoll:
    records = tuple(enumerate(values))
    poll = CommittedPoll(client="r", began=0, partition=partition, records=records, is_final=is_final)
    poll.end(Outcome.OK, 1)
    return poll


def in_the_end(partition: TopicPartition, *values: bytes) -> CommittedPoll:
    return read(partition, *values, is_final=True)


def came_to(offset: int) -> CopyPosition:
    return CopyPosition(client="a", began=0, source=HERE, offset=offset)


FIRST, SECOND = copy_of(HERE, 0), copy_of(HERE, 1)
LEDGER = in_the_end(HERE, b"a", b"b")


@pytest.mark.parametrize(
    ("rule", "broken"),
    [
        (NoAbortedReads, history(wrote(b"a", Outcome.UNKNOWN, asked=False), read(HERE, b"a"))),
        (NoAbortedReads, history(wrote(b"a", Outcome.FAILED), read(HERE, b"a"))),
        (TransactionsAreWhole, history(wrote(b"a", Outcome.OK), in_the_end(HERE, b"a"))),
        (TransactionsAreWhole, history(wrote(b"a", Outcome.OK))),
        (TransactionsAreWhole, history(wrote(b"a", Outcome.UNKNOWN), in_the_end(HERE, b"a"))),
        (TransactionsAreWhole, history(wrote(b"a", Outcome.OK), in_the_end(HERE, b"a", b"a"), in_the_end(THERE, b"a"))),
        (NoVanishedTransactions, history(read(HERE, b"a"), in_the_end(HERE))),
        (CopiedExactlyOnce, history(LEDGER, came_to(1), in_the_end(COPIES, FIRST, FIRST))),
        (CopiedExactlyOnce, history(LEDGER, came_to(2), in_the_end(COPIES, FIRST))),
        (CopiedExactlyOnce, history(LEDGER, came_to(1), in_the_end(COPIES, FIRST, SECOND))),
        (CopiedExactlyOnce, history(LEDGER, came_to(9), in_the_end(COPIES, FIRST, SECOND, copy_of(HERE, 2)))),
    ],
)
def test_a_history_that_breaks_a_rule_is_rejected(rule: type[Checker], broken: History) -> None:
    assert check(broken, rule)


@pytest.mark.parametrize(
    ("rule", "kept"),
    [
        (NoAbortedReads, history(wrote(b"a", Outcome.UNKNOWN), read(HERE, b"a"))),
        (TransactionsAreWhole, history(wrote(b"a", Outcome.OK), in_the_end(HERE, b"a"), in_the_end(THERE, b"a"))),
        (TransactionsAreWhole, history(wrote(b"a", Outcome.UNKNOWN), in_the_end(HERE), in_the_end(THERE))),
        (NoVanishedTransactions, history(read(HERE, b"a"), in_the_end(HERE, b"a"))),
        (CopiedExactlyOnce, history(LEDGER, came_to(2), in_the_end(COPIES, SECOND, FIRST))),
        (CopiedExactlyOnce, history(LEDGER, came_to(0), in_the_end(COPIES))),
        (CopiedExactlyOnce, history(LEDGER)),
    ],
)
def test_a_history_that_keeps_a_rule_is_accepted(rule: type[Checker], kept: History) -> None:
    assert not check(kept, rule)
