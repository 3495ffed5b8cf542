"""What is looked at again and again while somebody has a page open, with as much of the past as charts need."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Any

from ottla.console.lag import Diagnosis, GroupLook, diagnose
from ottla.console.shared import Shared
from ottla.console.snapshot import ClusterNow, Rates, rates_between
from ottla.console.source import EXPECTED, Source
from ottla.types import TopicPartition

CLUSTER_EVERY_S = 2.0
GROUPS_EVERY_S = 5.0
GROUP_EVERY_S = 2.5
RATES_KEPT = 60
POINTS_KEPT = 360
LOOKS_SPAN_MS = 60_000
"""What a diagnosis is made of."""
LOOKS_KEPT = 30
APART_MS = 1_500
"""Two tabs that look at one group make no more points than one."""
GROUPS_SAMPLED_MAX = 100
GROUPS_AT_ONCE = 4
HISTORIES_MAX = 200
WORST = 5
"""Partitions that have a line of their own in a chart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    now: ClusterNow
    rates: Rates
    past: tuple[float, ...]
    """Records per second of the whole cluster, oldest first."""


class ClusterWatch:
    def __init__(self, source: Source) -> None:
        self._source = source
        self._before: ClusterNow | None = None
        self._past: deque[float] = deque(maxlen=RATES_KEPT)
        self.shared: Shared[Moment] = Shared(self._look, every_s=CLUSTER_EVERY_S)

    async def _look(self) -> Moment:
        now = await self._source.cluster()
        rates = Rates() if self._before is None else rates_between(self._before, now)
        self._before = now
        if rates.total is not None:
            self._past.append(rates.total)
        return Moment(now=now, rates=rates, past=tuple(self._past))


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    at_ms: int
    records: int
    seconds: float
    worst: tuple[tuple[TopicPartition, float], ...]
    """The partitions that lag most, in seconds."""


class History:
    """Of one group."""

    def __init__(self) -> None:
        self.points: deque[Point] = deque(maxlen=POINTS_KEPT)
        self._looks: deque[GroupLook] = deque(maxlen=LOOKS_KEPT)

    def add(self, look: GroupLook) -> None:
        if self.points and look.at_ms - self.points[-1].at_ms < APART_MS:
            return
        while self._looks and look.at_ms - self._looks[0].at_ms > LOOKS_SPAN_MS:
            self._looks.popleft()
        self._looks.append(look)
        ages = [(at, each.seconds) for at, each in look.partitions.items() if each.seconds is not None]
        worst = sorted(ages, key=lambda pair: -pair[1])[:WORST]
        self.points.append(Point(at_ms=look.at_ms, records=look.records, seconds=look.seconds, worst=tuple(worst)))

    def diagnosis(self) -> Diagnosis | None:
        return diagnose(self._looks)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupNow:
    name: str
    state: str
    group_type: str
    look: GroupLook | None
    """None where it was not looked at: there are too many groups, or its coordinator did not answer."""
    told: dict[str, Any]
    points: tuple[Point, ...]
    diagnosis: Diagnosis | None


class GroupsWatch:
    def __init__(self, source: Source) -> None:
        self._source = source
        self._histories: dict[str, History] = {}
        self._single: dict[str, Shared[GroupNow]] = {}
        self.shared: Shared[list[GroupNow]] = Shared(self._look, every_s=GROUPS_EVERY_S)

    def group(self, name: str) -> Shared[GroupNow]:
        """Polled on its own, for as long as a page about it is open."""
        found = self._single.get(name)
        if found is None:
            found = self._single[name] = Shared(
                lambda: self._look_at(name, "", ""), every_s=GROUP_EVERY_S, on_idle=lambda: self._forget(name)
            )
        return found

    def _forget(self, name: str) -> None:
        self._single.pop(name, None)

    async def _look(self) -> list[GroupNow]:
        listed = await self._source.groups()
        turns = asyncio.Semaphore(GROUPS_AT_ONCE)

        async def one(at: int, group: dict[str, Any]) -> GroupNow:
            name, state, kind = group["group"], group["state"], group["type"] or ""
            if at < GROUPS_SAMPLED_MAX:
                async with turns:
                    try:
                        return await self._look_at(name, state, kind)
                    except EXPECTED:
                        pass  # the page says that nothing is known of it
            return GroupNow(name=name, state=state, group_type=kind, look=None, told={}, points=(), diagnosis=None)

        return list(await asyncio.gather(*(one(at, group) for at, group in enumerate(listed))))

    async def _look_at(self, name: str, state: str, kind: str) -> GroupNow:
        look, told = await self._source.group(name)
        history = self._history(name)
        history.add(look)
        return GroupNow(
            name=name,
            state=look.state or state,
            group_type=kind,
            look=look,
            told=told,
            points=tuple(history.points),
            diagnosis=history.diagnosis(),
        )

    def _history(self, name: str) -> History:
        """Those that were not looked at for longest go first."""
        history = self._histories.pop(name, None) or History()
        self._histories[name] = history
        while len(self._histories) > HISTORIES_MAX:
            self._histories.pop(next(iter(self._histories)))
        return history
