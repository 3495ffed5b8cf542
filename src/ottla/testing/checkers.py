"""Oracles: each reads a history and says what in it a correct system can't have done.

They know nothing of how the system works, and nothing of the simulator: a history of real clients would do as well.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from ottla.testing.history import (
    NO_OFFSET,
    Anomaly,
    Applied,
    Commit,
    CommittedRead,
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


@dataclass(frozen=True, slots=True)
class Violation:
    rule: str
    what: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.what}"


class Checker:
    """A rule that histories must obey."""

    def violations(self, history: History) -> Iterator[str]:
        raise AssertionError(f"{type(self).__name__} has no rule")


class NoLostWrites(Checker):
    """Every acknowledged record is in the log in the end, at the offset that was acknowledged."""

    def violations(self, history: History) -> Iterator[str]:
        final = {partition: dict(records) for partition, records in history.final.items()}
        values = {partition: set(records.values()) for partition, records in final.items()}
        for send in history.acknowledged(Send):
            for at, value in enumerate(send.values):
                if send.base_offset == NO_OFFSET:
                    if value not in values.get(send.partition, ()):
                        yield f"{_text(value)} was acknowledged at {send.ended:.4f} and is not in {send.partition}"
                    continue
                offset = send.base_offset + at
                found = final.get(send.partition, {}).get(offset)
                if found != value:
                    yield (
                        f"{_text(value)} was acknowledged at {send.ended:.4f} as {_place(send.partition, offset)},"
                        f" where {_text(found)} is in the end"
                    )


class NoDuplicates(Checker):
    """An idempotent producer's record is in the log once, however often it was sent."""

    def violations(self, history: History) -> Iterator[str]:
        for partition, records in history.final.items():
            seen: dict[bytes, int] = {}
            for offset, value in records:
                if value in seen:
                    yield f"{_text(value)} is in {partition} twice, at {seen[value]} and {offset}"
                seen.setdefault(value, offset)


class SameOffsets(Checker):
    """An offset stands for one record: whoever was told of it, by an acknowledgement or by a read, ever."""

    def violations(self, history: History) -> Iterator[str]:
        told: dict[tuple[TopicPartition, int], tuple[bytes, str]] = {}
        for partition, offset, value, by in _tellings(history):
            before = told.setdefault((partition, offset), (value, by))
            if before[0] != value:
                yield (
                    f"{_place(partition, offset)} is {_text(before[0])} for {before[1]}, but {_text(value)} for {by}"
                )


class NoVanishedReads(Checker):
    """What a reader has seen stays in the log."""

    def violations(self, history: History) -> Iterator[str]:
        final = {partition: dict(records) for partition, records in history.final.items()}
        for poll in history.acknowledged(Poll):
            for offset, value in poll.records:
                if offset not in final.get(poll.partition, {}):
                    yield f"{poll.client} read {_text(value)} at {_place(poll.partition, offset)}, which is gone"


class MonotonicPolls(Checker):
    """A reader never sees an offset again, nor one below what it has seen."""

    def violations(self, history: History) -> Iterator[str]:
        for (client, partition), offsets in _polled(history).items():
            for before, after in pairwise(offsets):
                if after <= before:
                    yield f"{client} read {after} of {partition} after {before}"


class NoPollSkips(Checker):
    """A reader passes over no record."""

    def violations(self, history: History) -> Iterator[str]:
        final = {partition: [offset for offset, _ in records] for partition, records in history.final.items()}
        for (client, partition), offsets in _polled(history).items():
            for before, after in pairwise(offsets):
                there = final.get(partition, [])
                missed = there[bisect_right(there, before) : bisect_left(there, after)]
                if missed:
                    yield f"{client} read {after} of {partition} after {before} and never saw {missed}"


class MonotonicHighWatermark(Checker):
    """In one leader epoch, a reader that asks later is never told of a lower high watermark.

    A new leader knows less of it than the old one did until its followers have fetched, as in Kafka.
    """

    def violations(self, history: History) -> Iterator[str]:
        polls: dict[tuple[TopicPartition, int], list[Poll]] = defaultdict(list)
        for poll in history.acknowledged(Poll):
            polls[poll.partition, poll.epoch].append(poll)
        for (partition, epoch), all_of_it in polls.items():
            for poll, before in went_back(all_of_it, lambda poll: poll.high_watermark):
                yield (
                    f"{poll.client} was told at {poll.ended:.4f} that the high watermark of {partition} in epoch"
                    f" {epoch} is {poll.high_watermark}, after somebody had been told {before}"
                )


class MonotonicLatest(Checker):
    """Who asks for the end of a log is never told of an earlier one than before, whoever leads meanwhile."""

    def violations(self, history: History) -> Iterator[str]:
        asked: dict[tuple[str, TopicPartition], list[LatestOffset]] = defaultdict(list)
        for latest in history.acknowledged(LatestOffset):
            asked[latest.client, latest.partition].append(latest)
        for (client, partition), all_of_it in asked.items():
            for latest, before in went_back(all_of_it, lambda latest: latest.offset):
                at = f"at {latest.ended:.4f}"
                yield f"{client} was told {at} that {partition} ends at {latest.offset}, after {before}"


class OneLeaderPerEpoch(Checker):
    """A partition has one leader in one leader epoch: whoever says so, and whoever acts as one."""

    def violations(self, history: History) -> Iterator[str]:
        leaders: dict[tuple[TopicPartition, int], int] = {}
        for operation in history.acknowledged(Operation):
            if not isinstance(operation, LeaderSeen | Poll | LatestOffset) or operation.leader < 0:
                continue
            partition, epoch = operation.partition, operation.epoch
            leader = leaders.setdefault((partition, epoch), operation.leader)
            if leader != operation.leader:
                yield f"{leader} and {operation.leader} both lead {partition} in epoch {epoch}"


class MonotonicEpochs(Checker):
    """A broker that is asked later never tells of an earlier leader epoch."""

    def violations(self, history: History) -> Iterator[str]:
        told: dict[tuple[str, TopicPartition], list[LeaderSeen]] = defaultdict(list)
        for seen in history.acknowledged(LeaderSeen):
            told[seen.broker, seen.partition].append(seen)
        for (broker, partition), all_of_it in told.items():
            for seen, before in went_back(all_of_it, lambda seen: seen.epoch):
                yield f"{broker} told at {seen.ended:.4f} of epoch {seen.epoch} of {partition}, after {before}"


class CommittedOffsetsSurvive(Checker):
    """Whoever asks for a committed offset gets the last one that was committed, or one whose fate was open then.

    A coordinator that does not know yet that another has taken over may miss what the other was told, as in Kafka; it
    can't acknowledge anything any more.
    """

    def violations(self, history: History) -> Iterator[str]:
        commits: dict[tuple[str, TopicPartition], list[Commit]] = defaultdict(list)
        for commit in history.of(Commit, lambda commit: commit.outcome is not Outcome.FAILED):
            commits[commit.group, commit.partition].append(commit)
        for read in history.acknowledged(CommittedRead):
            known = commits[read.group, read.partition]
            if not self._is_possible(read, known):
                last = max((commit.offset for commit in known if commit.ended <= read.began), default=NO_OFFSET)
                yield (
                    f"{read.client} was told at {read.ended:.4f} that {read.group} has committed {read.offset} of"
                    f" {read.partition}, after {last} had been acknowledged"
                )

    def _is_possible(self, read: CommittedRead, commits: list[Commit]) -> bool:
        settled = [
            commit
            for commit in commits
            if commit.outcome is Outcome.OK
            and commit.ended <= read.began
            and (read.is_final or commit.coordinator == read.coordinator)
        ]
        if read.offset == NO_OFFSET:
            return not settled
        return any(
            commit.offset == read.offset
            and commit.began <= read.ended
            and not any(later.began >= commit.ended for later in settled)
            for commit in commits
        )


class GroupExclusive(Checker):
    """In one generation of a group a partition belongs to one member."""

    def violations(self, history: History) -> Iterator[str]:
        owners: dict[tuple[str, int, TopicPartition], str] = {}
        for owned in history.acknowledged(Ownership):
            for partition in owned.partitions:
                owner = owners.setdefault((owned.group, owned.generation, partition), owned.member)
                if owner != owned.member:
                    yield (
                        f"{owner} and {owned.member} both own {partition}"
                        f" in generation {owned.generation} of {owned.group}"
                    )


class NoAnomalies(Checker):
    """No broker gave an answer that a correct one never gives."""

    def violations(self, history: History) -> Iterator[str]:
        for anomaly in history.of(Anomaly):
            yield f"{anomaly.client} at {anomaly.began:.4f}: {anomaly.what}"


class SameReplicas(Checker):
    """In the end every replica of a partition is the same, byte for byte, as far as the log of each reaches back."""

    def violations(self, history: History) -> Iterator[str]:
        for partition, replicas in history.replicas.items():
            (first, model), *others = sorted(replicas.items())
            for node, replica in others:
                if replica.end_offset != model.end_offset:
                    yield f"{partition} ends at {model.end_offset} on {first}, but at {replica.end_offset} on {node}"
                at = _first_difference(model, replica)
                if at is not None:
                    yield f"{_place(partition, at)} is another batch on {first} than on {node}"


def _first_difference(one: Replica, other: Replica) -> int | None:
    """Old segments may be gone from one and not yet from the other, so only what both may have is compared."""
    start = max(min(one.batches, default=0), min(other.batches, default=0))
    end = min(one.end_offset, other.end_offset)
    for offset in sorted({*one.batches, *other.batches}):
        if start <= offset < end and one.batches.get(offset) != other.batches.get(offset):
            return offset
    return None


class OneLeaderPerTerm(Checker):
    """The quorum has one leader in one term."""

    def violations(self, history: History) -> Iterator[str]:
        leaders: dict[int, str] = {}
        for election in history.elections:
            leader = leaders.setdefault(election.term, election.node)
            if leader != election.node:
                yield f"{leader} and {election.node} both led the quorum in term {election.term}"


class SameMetadata(Checker):
    """What one node took for a committed entry of the metadata is the same on all nodes, for ever."""

    def violations(self, history: History) -> Iterator[str]:
        known: dict[int, Applied] = {}
        for applied in history.applied:
            first = known.setdefault(applied.index, applied)
            if first.digest != applied.digest:
                yield (
                    f"entry {applied.index} of the metadata is one for {first.node} at {first.at:.4f}"
                    f" and another for {applied.node} at {applied.at:.4f}"
                )


EVERYTHING: tuple[type[Checker], ...] = (
    NoLostWrites, NoDuplicates, SameOffsets, NoVanishedReads, MonotonicPolls, NoPollSkips, MonotonicHighWatermark,
    MonotonicLatest, OneLeaderPerEpoch, MonotonicEpochs, CommittedOffsetsSurvive, GroupExclusive, NoAnomalies,
    SameReplicas, OneLeaderPerTerm, SameMetadata,
)  # fmt: skip


def check(history: History, *checkers: type[Checker]) -> list[Violation]:
    """What breaks the rules; all rules if none are named."""
    return [
        Violation(checker.__name__, what)
        for checker in checkers or EVERYTHING
        for what in checker().violations(history)
    ]


def _tellings(history: History) -> Iterable[tuple[TopicPartition, int, bytes, str]]:
    for partition, records in history.final.items():
        for offset, value in records:
            yield partition, offset, value, "the final log"
    for send in history.acknowledged(Send):
        if send.base_offset != NO_OFFSET:
            for at, value in enumerate(send.values):
                yield send.partition, send.base_offset + at, value, f"the acknowledgement to {send.client}"
    for poll in history.acknowledged(Poll):
        for offset, value in poll.records:
            yield poll.partition, offset, value, f"{poll.client} at {poll.ended:.4f}"


def _polled(history: History) -> dict[tuple[str, TopicPartition], list[int]]:
    """The offsets that each reader has seen of each partition, in its order."""
    offsets: dict[tuple[str, TopicPartition], list[int]] = defaultdict(list)
    for poll in history.acknowledged(Poll):
        offsets[poll.client, poll.partition].extend(offset for offset, _ in poll.records)
    return offsets


AnyOperation = TypeVar("AnyOperation", bound=Operation)


def went_back(
    operations: Iterable[AnyOperation], value: Callable[[AnyOperation], int]
) -> Iterator[tuple[AnyOperation, int]]:
    """Operations that were told less than another one that had ended before they began, and how much that was."""
    by_end = sorted(operations, key=lambda operation: operation.ended)
    highest, at = -1, 0
    for operation in sorted(by_end, key=lambda operation: operation.began):
        while by_end[at].ended < operation.began:
            highest = max(highest, value(by_end[at]))
            at += 1
        if value(operation) < highest:
            yield operation, highest


def _place(partition: TopicPartition, offset: int) -> str:
    return f"{partition}@{offset}"


def _text(value: bytes | None) -> str:
    return "nothing" if value is None else repr(value.rstrip(b".").decode("utf-8", "replace"))
