"""Every rule accepts a history that a correct system may have, and rejects one that it can't."""

import pytest

from ottla.testing.checkers import (
    Checker,
    CommittedOffsetsSurvive,
    GroupExclusive,
    MonotonicHighWatermark,
    MonotonicPolls,
    NoAnomalies,
    NoDuplicates,
    NoLostWrites,
    NoPollSkips,
    NoVanishedReads,
    SameOffsets,
    check,
)
from ottla.testing.history import Anomaly, Commit, CommittedRead, History, Operation, Outcome, Ownership, Poll, Send
from ottla.types import TopicPartition

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)


def history(*operations: Operation, final: tuple[bytes, ...] = ()) -> History:
    return History(list(operations), {T0: tuple(enumerate(final))})


def sent(*values: bytes, offset: int = 0, outcome: Outcome = Outcome.OK) -> Send:
    return Send(client="p", began=0, ended=1, outcome=outcome, partition=T0, values=values, base_offset=offset)


def polled(
    *records: tuple[int, bytes], client: str = "c", began: float = 0, ended: float = 1, high_watermark: int = 9
) -> Poll:
    return Poll(
        client=client,
        began=began,
        ended=ended,
        outcome=Outcome.OK,
        partition=T0,
        records=records,
        high_watermark=high_watermark,
    )


def committed(offset: int, began: float, ended: float, outcome: Outcome = Outcome.OK) -> Commit:
    return Commit(client="m", began=began, ended=ended, outcome=outcome, group="g", partition=T0, offset=offset)


def read_back(offset: int, began: float, ended: float) -> CommittedRead:
    return CommittedRead(
        client="m", began=began, ended=ended, outcome=Outcome.OK, group="g", partition=T0, offset=offset
    )


def owned(member: str, generation: int, *partitions: TopicPartition) -> Ownership:
    return Ownership(
        client=member,
        began=0,
        ended=1,
        outcome=Outcome.OK,
        group="g",
        member=member,
        generation=generation,
        partitions=partitions,
    )


REJECTED: list[tuple[type[Checker], History]] = [
    (NoLostWrites, history(sent(b"a", b"b"), final=(b"a",))),
    (NoLostWrites, history(sent(b"a"), final=(b"x", b"a"))),
    (NoLostWrites, history(sent(b"a", offset=-1), final=(b"x",))),
    (NoDuplicates, history(final=(b"a", b"b", b"a"))),
    (SameOffsets, history(polled((0, b"a")), polled((0, b"b")), final=(b"b",))),
    (SameOffsets, history(sent(b"a"), final=(b"b",))),
    (NoVanishedReads, history(polled((0, b"a"), (1, b"b")), final=(b"a",))),
    (MonotonicPolls, history(polled((0, b"a"), (1, b"b")), polled((1, b"b")))),
    (MonotonicPolls, history(polled((1, b"b"), (0, b"a")))),
    (NoPollSkips, history(polled((0, b"a")), polled((2, b"c")), final=(b"a", b"b", b"c"))),
    (MonotonicHighWatermark, history(polled(high_watermark=5), polled(high_watermark=4, began=2, ended=3))),
    (CommittedOffsetsSurvive, history(committed(5, 0, 1), read_back(-1, 2, 3))),
    (CommittedOffsetsSurvive, history(committed(5, 0, 1), committed(7, 2, 3), read_back(5, 4, 5))),
    (CommittedOffsetsSurvive, history(committed(5, 0, 1), read_back(6, 2, 3))),
    (CommittedOffsetsSurvive, history(committed(5, 0, 1, Outcome.FAILED), read_back(5, 2, 3))),
    (GroupExclusive, history(owned("a", 1, T0, T1), owned("b", 1, T1))),
    (NoAnomalies, history(Anomaly(client="c", began=0, what="UNKNOWN_SERVER_ERROR"))),
]

ACCEPTED: list[tuple[type[Checker], History]] = [
    (NoLostWrites, history(sent(b"a", b"b"), sent(b"c", outcome=Outcome.UNKNOWN), final=(b"a", b"b"))),
    (NoLostWrites, history(sent(b"a", offset=-1), final=(b"x", b"a"))),
    (NoDuplicates, history(final=(b"a", b"b"))),
    (SameOffsets, history(sent(b"a"), polled((0, b"a")), polled((1, b"b")), final=(b"a", b"b"))),
    (NoVanishedReads, history(polled((0, b"a")), final=(b"a", b"b"))),
    (MonotonicPolls, history(polled((0, b"a")), polled((1, b"b")), polled((0, b"a"), client="another"))),
    (NoPollSkips, history(polled((0, b"a")), polled((1, b"b")), final=(b"a", b"b"))),
    (MonotonicHighWatermark, history(polled(high_watermark=5), polled(high_watermark=4, began=0.5, ended=3))),
    (CommittedOffsetsSurvive, history(read_back(-1, 0, 1), committed(5, 1, 2), read_back(5, 3, 4))),
    (CommittedOffsetsSurvive, history(committed(5, 0, 9, Outcome.UNKNOWN), read_back(-1, 1, 2))),
    (CommittedOffsetsSurvive, history(committed(5, 0, 9, Outcome.UNKNOWN), read_back(5, 1, 2))),
    (CommittedOffsetsSurvive, history(committed(5, 0, 3), committed(7, 1, 2), read_back(5, 4, 5))),
    (GroupExclusive, history(owned("a", 1, T0), owned("b", 1, T1), owned("b", 2, T0))),
    (NoAnomalies, history(sent(b"a"))),
]


@pytest.mark.parametrize(("rule", "broken"), REJECTED)
def test_a_history_that_breaks_a_rule_is_rejected(rule: type[Checker], broken: History) -> None:
    assert [violation.rule for violation in check(broken, rule)] == [rule.__name__]


@pytest.mark.parametrize(("rule", "kept"), ACCEPTED)
def test_a_history_that_keeps_a_rule_is_accepted(rule: type[Checker], kept: History) -> None:
    assert check(kept, rule) == []


def test_without_names_all_rules_are_checked() -> None:
    broken = history(sent(b"a"), owned("a", 1, T0), owned("b", 1, T0))
    assert {violation.rule for violation in check(broken)} == {"NoLostWrites", "GroupExclusive"}
