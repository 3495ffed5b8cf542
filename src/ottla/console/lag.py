"""Why a consumer group falls behind, concluded from a few looks at it.

A look says how far each partition was written and read, and by whom. From the first and the last of them follows what
was written and read in between, and from that which of these it is (the first that holds):

    NO_MEMBERS          nobody reads
    REBALANCING         members come and go, and nobody reads while partitions are given out anew
    UNREAD_PARTITION    there are members, but none was given the partitions that lag
    STALLED             members have partitions, and commit nothing at all
    STUCK_PARTITION     one partition is not read on, while its reader goes on with others
    SKEWED_PARTITION    one partition is written much more than the others, and its reader can't keep up
    SLOW_MEMBER         the partitions of one member lag, those of the others don't
    TOO_FEW_MEMBERS     all of them read, and all of them together less than is written
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from statistics import median

from ottla.console.text import count, duration, plural, rate
from ottla.types import TopicPartition

STABLE = "Stable"
REBALANCING_STATES = frozenset({"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})
LOOKS_MIN_MS = 4_000
"""Less than this apart, two looks say nothing about rates: consumers commit every five seconds or so."""
BEHIND_S = 5.0
"""A group that is less behind than this reads as it should: committing takes its time."""
MOST = 0.6
"""What has this share of the lag has the lag."""
SKEW = 3.0
"""A partition is written much more than others if it is written this many times as much as the middle one."""
CHANGES_MIN = 2
"""Assignments that change this often within the looks are no accident."""


class Cause(StrEnum):
    NO_MEMBERS = "no members"
    REBALANCING = "rebalancing"
    UNREAD_PARTITION = "unread partition"
    STALLED = "stalled"
    STUCK_PARTITION = "stuck partition"
    SKEWED_PARTITION = "skewed partition"
    SLOW_MEMBER = "slow member"
    TOO_FEW_MEMBERS = "too few members"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLook:
    end: int | None
    committed: int | None
    records: int | None
    seconds: float | None
    member: str | None
    """Who was given it; a member id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLook:
    at_ms: int
    state: str
    members: Mapping[str, str]
    """Member id → a name that people know: its client id and host."""
    partitions: Mapping[TopicPartition, PartitionLook]

    @property
    def records(self) -> int:
        return sum(look.records or 0 for look in self.partitions.values())

    @property
    def seconds(self) -> float:
        return max((look.seconds or 0.0 for look in self.partitions.values()), default=0.0)

    @property
    def assignment(self) -> frozenset[tuple[TopicPartition, str | None]]:
        return frozenset((at, look.member) for at, look in self.partitions.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    cause: Cause
    sentence: str
    remedy: str
    partitions: tuple[TopicPartition, ...] = ()
    member: str | None = None


def diagnose(looks: Sequence[GroupLook]) -> Diagnosis | None:
    """None: the group keeps up, or catches up, or too little is known yet. `looks` in order of time."""
    if not looks or not looks[-1].records:
        return None
    last = looks[-1]
    if not last.members and last.state not in REBALANCING_STATES:
        return _no_members(last)
    shifting = _rebalancing(looks)
    if shifting is not None:
        return shifting
    unread = _unread(last)
    if unread is not None:
        return unread
    if last.at_ms - looks[0].at_ms < LOOKS_MIN_MS or last.seconds < BEHIND_S:
        return None
    span = Span(looks[0], last)
    if not span.is_growing:
        return None
    return span.stalled() or span.in_one_partition() or span.in_one_member() or span.too_few()


def _no_members(look: GroupLook) -> Diagnosis:
    return Diagnosis(
        cause=Cause.NO_MEMBERS,
        sentence=f"Nobody reads: the group has no members, and {plural(look.records, 'record')} wait for it.",
        remedy="Start a consumer of this group. If it should run, see why it stopped or can't reach the cluster.",
    )


def _rebalancing(looks: Sequence[GroupLook]) -> Diagnosis | None:
    shifting = sum(look.state in REBALANCING_STATES for look in looks)
    changes = sum(before.assignment != after.assignment and bool(after.members) for before, after in pairwise(looks))
    if looks[-1].state not in REBALANCING_STATES and changes < CHANGES_MIN:
        return None
    return Diagnosis(
        cause=Cause.REBALANCING,
        sentence=(
            f"The group gives its partitions out anew: it did so in {shifting} of the last {len(looks)} looks, and who "
            f"reads what changed {plural(changes, 'time')}. Nobody reads meanwhile."
        ),
        remedy=(
            "If it does not settle: members may crash, or take longer between two polls than max.poll.interval.ms "
            "allows. Static members (group.instance.id) and cooperative assignment make restarts cheap."
        ),
    )


def _unread(look: GroupLook) -> Diagnosis | None:
    unread = tuple(sorted(at for at, each in look.partitions.items() if each.member is None and each.records))
    waiting = sum(look.partitions[at].records or 0 for at in unread)
    if not unread or waiting < MOST * look.records:
        return None
    return Diagnosis(
        cause=Cause.UNREAD_PARTITION,
        sentence=(
            f"No member was given {_places(unread)}, where {plural(waiting, 'record')} wait. The group has members, "
            "but they read something else."
        ),
        remedy="See whether the members subscribe to this topic, or whether the group has left it for good.",
        partitions=unread,
    )


class Span:
    """What happened between two looks."""

    def __init__(self, first: GroupLook, last: GroupLook) -> None:
        self._last = last
        self._growth = last.records - first.records
        self._ages = last.seconds - first.seconds
        self._seconds = (last.at_ms - first.at_ms) / 1000
        self._written: dict[TopicPartition, float] = {}
        self._read: dict[TopicPartition, float] = {}
        for at, now in last.partitions.items():
            before = first.partitions.get(at)
            if before is not None:
                self._written[at] = self._per_s(before.end, now.end)
                self._read[at] = self._per_s(before.committed, now.committed)

    def _per_s(self, before: int | None, now: int | None) -> float:
        return max(0, now - before) / self._seconds if before is not None and now is not None else 0.0

    @property
    def is_growing(self) -> bool:
        """In records, or in age: a group that reads nothing of a topic that nobody writes to still falls behind."""
        return self._growth > 0 or self._ages >= self._seconds / 2

    def _lag(self, at: TopicPartition) -> int:
        return self._last.partitions[at].records or 0

    def stalled(self) -> Diagnosis | None:
        if sum(self._read.values()):
            return None
        members = len(self._last.members)
        return Diagnosis(
            cause=Cause.STALLED,
            sentence=(
                f"{plural(members, 'member')} {'has' if members == 1 else 'have'} partitions, but committed nothing in "
                f"{duration(self._seconds)}, while {rate(sum(self._written.values()))} were written."
            ),
            remedy="The members may hang, work on something slow, or not commit at all: look at their logs.",
        )

    def in_one_partition(self) -> Diagnosis | None:
        if len(self._last.partitions) < 2:
            return None
        at = max(self._last.partitions, key=self._lag)
        if self._lag(at) < MOST * self._last.records:
            return None
        others = [each for each in self._last.partitions if each != at]
        mine = [each for each in others if self._last.partitions[each].member == self._last.partitions[at].member]
        if not self._read.get(at) and any(self._read.get(each) for each in mine):
            return self._stuck(at)
        usual = median(self._written.get(each, 0.0) for each in others)
        if self._written.get(at, 0.0) >= SKEW * max(usual, 1.0):
            return self._skewed(at, usual)
        return None

    def _stuck(self, at: TopicPartition) -> Diagnosis:
        where = self._last.partitions[at].committed
        return Diagnosis(
            cause=Cause.STUCK_PARTITION,
            sentence=(
                f"{at.topic}-{at.partition} is not read on from offset {count(where)}, while its reader goes on with "
                f"other partitions. {plural(self._lag(at), 'record')} wait behind it."
            ),
            remedy="The next record may be one that can't be processed: look at it, and at the reader's log.",
            partitions=(at,),
            member=self._last.partitions[at].member,
        )

    def _skewed(self, at: TopicPartition, usual: float) -> Diagnosis:
        return Diagnosis(
            cause=Cause.SKEWED_PARTITION,
            sentence=(
                f"{at.topic}-{at.partition} gets {rate(self._written[at])}, the middle one of the others "
                f"{rate(usual)}; it is read at {rate(self._read.get(at, 0.0))} and has {self._share(self._lag(at))} of "
                "the lag."
            ),
            remedy="A few keys may have most of the records. More members don't help: spread the keys.",
            partitions=(at,),
            member=self._last.partitions[at].member,
        )

    def in_one_member(self) -> Diagnosis | None:
        if len(self._last.members) < 2:
            return None
        lags: dict[str, int] = {}
        for at, each in self._last.partitions.items():
            if each.member is not None:
                lags[each.member] = lags.get(each.member, 0) + self._lag(at)
        slowest = max(lags, key=lambda member: lags[member])
        if lags[slowest] < MOST * self._last.records:
            return None
        its = tuple(sorted(at for at, each in self._last.partitions.items() if each.member == slowest))
        read = sum(self._read.get(at, 0.0) for at in its)
        written = sum(self._written.get(at, 0.0) for at in its)
        name = self._last.members.get(slowest, slowest)
        return Diagnosis(
            cause=Cause.SLOW_MEMBER,
            sentence=(
                f"{name} reads {rate(read)} of the {rate(written)} in its {plural(len(its), 'partition')}, and has "
                f"{self._share(lags[slowest])} of the lag; the others keep up."
            ),
            remedy="See what this one does differently: its machine, its network, or a slow service that it calls.",
            partitions=its,
            member=slowest,
        )

    def too_few(self) -> Diagnosis:
        members, partitions = len(self._last.members), len(self._last.partitions)
        more = (
            f"Up to {partitions} members can share the work, or make each of them quicker."
            if members < partitions
            else "Each partition has its member already: make them quicker, or give the topic more partitions."
        )
        return Diagnosis(
            cause=Cause.TOO_FEW_MEMBERS,
            sentence=(
                f"{rate(sum(self._written.values()))} are written, {plural(members, 'member')} together "
                f"read{'s' if members == 1 else ''} {rate(sum(self._read.values()))}."
            ),
            remedy=more,
        )

    def _share(self, records: int) -> str:
        return f"{100 * records / self._last.records:.0f} %"


def _places(places: Sequence[TopicPartition]) -> str:
    shown = ", ".join(f"{at.topic}-{at.partition}" for at in places[:3])
    return shown if len(places) <= 3 else f"{shown} and {len(places) - 3} more"
