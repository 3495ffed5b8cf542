"""Every rule accepts a history that a correct system may have, and rejects one that it can't."""

import pytest

from ottla.testing.checkers import (
    Checker,
    CommittedOffsetsSurvive,
    GroupExclusive,
    MonotonicEpochs,
    MonotonicHighWatermark,
    MonotonicLatest,
    MonotonicPolls,
    NoAnomalies,
    NoDuplicates,
    NoLostWrites,
    NoPollSkips,
    NoVanishedReads,
    OneLeaderPerEpoch,
    OneLeaderPerTerm,
    SameMetadata,
    SameOffsets,
    SameReplicas,
    check,
)
from ottla.testing.history import (
    Anomaly,
    Applied,
    Commit,
    CommittedRead,
    Election,
    History,
    LatestOffset,
    LeaderSeen,
    Operation,
    Outcome,
    Ownership,
    Poll,
    Replica,
    Send,
)
from ottla.types import TopicPartition

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)


def history(*operations: Operation, final: tuple[bytes, ...] = ()) -> History:
    return History(list(operations), {T0: tuple(enumerate(final))})


def sent(*values: bytes, offset: int = 0, outcome: Outcome = Outcome.OK) -> Send:
    return Send(client="p", began=0, ended=1, outcome=outcome, partition=T0, values=values, base_offset=offset)


def polled(
    *records: tuple[int, bytes],
    client: str = "c",
    began: float = 0,
    ended: float = 1,
    high_watermark: int = 9,
    leader: int = 1,
    epoch: int = 0,
) -> Poll:
    return Poll(
        client=client,
        began=began,
        ended=ended,
        outcome=Outcome.OK,
        partition=T0,
        records=records,
        high_watermark=high_watermark,
        leader=leader,
        epoch=epoch,
    )


def committed(offset: int, began: float, ended: float, outcome: Outcome = Outcome.OK, at: str = "x") -> Commit:
    return Commit(
        client="m",
        began=began,
        ended=ended,
        outcome=outcome,
        group="g",
        partition=T0,
        offset=offset,
        coordinator=at,
    )


def read_back(offset: int, began: float, ended: float, at: str = "x", *, is_final: bool = False) -> CommittedRead:
    return CommittedRead(
        client="m",
        began=began,
        ended=ended,
        outcome=Outcome.OK,
        group="g",
        partition=T0,
        offset=offset,
        coordinator=at,
        is_final=is_final,
    )


def latest(offset: int, began: float, ended: float, client: str = "c", leader: int = 1, epoch: int = 0) -> LatestOffset:
    return LatestOffset(
        client=client,
        began=began,
        ended=ended,
        outcome=Outcome.OK,
        partition=T0,
        offset=offset,
        leader=leader,
        epoch=epoch,
    )


def led(leader: int, epoch: int, began: float = 0, ended: float = 1, broker: str = "b") -> LeaderSeen:
    return LeaderSeen(
        client="c",
        began=began,
        ended=ended,
        outcome=Outcome.OK,
        broker=broker,
        partition=T0,
        leader=leader,
        epoch=epoch,
    )


def replicas(*logs: dict[int, bytes]) -> History:
    """One byte of a batch is one record."""
    copies = {
        f"node-{number}": Replica(
            batches=batches, end_offset=max((offset + len(batch) for offset, batch in batches.items()), default=0)
        )
        for number, batches in enumerate(logs)
    }
    return History(replicas={T0: copies})


def elected(*leaders: tuple[str, int]) -> History:
    return History(elections=[Election(at=0, node=node, term=term) for node, term in leaders])


def applied(*entries: tuple[str, int, str]) -> History:
    return History(applied=[Applied(at=0, node=node, index=index, digest=digest) for node, index, digest in entries])


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
    (CommittedOffsetsSurvive, history(committed(5, 0, 1), read_back(-1, 2, 3, at="y", is_final=True))),
    (MonotonicLatest, history(latest(7, 0, 1), latest(6, 2, 3, leader=2, epoch=1))),
    (OneLeaderPerEpoch, history(led(1, 4), led(2, 4))),
    (OneLeaderPerEpoch, history(led(1, 4), polled(leader=2, epoch=4))),
    (OneLeaderPerEpoch, history(polled(leader=1, epoch=4), latest(5, 0, 1, leader=3, epoch=4))),
    (MonotonicEpochs, history(led(1, 4), led(2, 3, began=2, ended=3))),
    (SameReplicas, replicas({0: b"ab", 2: b"c"}, {0: b"ab", 2: b"x"})),
    (SameReplicas, replicas({0: b"ab", 2: b"c"}, {0: b"ab"})),
    (SameReplicas, replicas({0: b"ab", 2: b"c"}, {0: b"a", 1: b"bc"})),
    (OneLeaderPerTerm, elected(("a", 1), ("b", 2), ("a", 2))),
    (SameMetadata, applied(("a", 1, "x"), ("b", 1, "y"))),
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
    (CommittedOffsetsSurvive, history(committed(5, 0, 1), committed(7, 2, 3), read_back(5, 4, 5, at="y"))),
    (MonotonicHighWatermark, history(polled(high_watermark=5), polled(high_watermark=4, began=2, ended=3, epoch=1))),
    (MonotonicLatest, history(latest(7, 0, 1), latest(6, 2, 3, client="another"), latest(7, 2, 3))),
    (OneLeaderPerEpoch, history(led(1, 4), led(2, 5), led(-1, 6), led(1, 6), polled(leader=1, epoch=4))),
    (MonotonicEpochs, history(led(1, 4), led(2, 3, began=2, ended=3, broker="another"), led(1, 3, began=0.5, ended=3))),
    (SameReplicas, replicas({0: b"ab", 2: b"c"}, {0: b"ab", 2: b"c"}, {2: b"c"})),
    (OneLeaderPerTerm, elected(("a", 1), ("b", 2), ("a", 1), ("a", 3))),
    (SameMetadata, applied(("a", 1, "x"), ("b", 1, "x"), ("b", 2, "y"))),
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
