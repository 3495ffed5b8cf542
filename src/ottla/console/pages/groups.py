"""Consumer groups: how far behind they are, in seconds, over time, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ottla.console.charts import Series, line_chart, sparkline
from ottla.console.frame import Page
from ottla.console.lag import BEHIND_S, LOOKS_MIN_MS, Diagnosis
from ottla.console.markup import (
    Child,
    Column,
    Html,
    badge,
    figure,
    figures,
    join,
    link,
    notice,
    panel,
    path,
    table,
    tag,
)
from ottla.console.pages.topics import FILTER
from ottla.console.site import Site
from ottla.console.source import member_name
from ottla.console.text import NONE, count, duration, plural, short
from ottla.console.watching import WORST, GroupNow, Point
from ottla.types import TopicPartition

COLUMNS = (
    Column("Group"),
    Column("State"),
    Column("Members", number=True, wide=True),
    Column("Behind", number=True),
    Column("Records", number=True, wide=True),
    Column("Last minutes", wide=True),
    Column("Why"),
)
PARTITION_COLUMNS = (
    Column("Partition"),
    Column("Committed", number=True, wide=True),
    Column("End", number=True, wide=True),
    Column("Records", number=True),
    Column("Behind", number=True),
    Column("Reader"),
)
MEMBER_COLUMNS = (Column("Member"), Column("Host", wide=True), Column("Partitions", number=True), Column("Reads"))
SPARK_POINTS = 60
LATE_S = 60
STATES = {"Stable": "good", "Empty": "", "Dead": "bad", "PreparingRebalance": "warn", "CompletingRebalance": "warn"}
READS_SHOWN = 6


def show_all(site: Site) -> None:
    Page(site, "Groups", "Consumer groups").watch(site.groups.shared, render_all)


def render_all(groups: Sequence[GroupNow]) -> Html:
    worst = sorted(groups, key=lambda group: (-_seconds(group), group.name))
    listed = table(
        COLUMNS,
        (_row(group) for group in worst),
        label="Consumer groups",
        empty="There are no consumer groups: one is made when a consumer first joins or commits.",
        keys=[group.name for group in worst],
    )
    return panel(plural(len(groups), "group"), listed, side=FILTER)


def _seconds(group: GroupNow) -> float:
    return group.look.seconds if group.look is not None else -1.0


def _row(group: GroupNow) -> list[Child]:
    name = link(group.name, path("groups", group.name))
    if group.look is None:
        return [name, state(group.state), NONE, NONE, NONE, NONE, tag("span", "Not looked at", class_="dim")]
    return [
        name,
        state(group.state),
        count(len(group.look.members)),
        late(group.look.seconds),
        count(group.look.records),
        sparkline([point.seconds for point in group.points[-SPARK_POINTS:]], "Seconds behind"),
        cause(group.diagnosis),
    ]


def state(name: str) -> Html:
    return badge(name or "unknown", STATES.get(name, ""))


def late(seconds: float | None) -> Html:
    kind = "" if seconds is None or seconds < BEHIND_S else "warn" if seconds < LATE_S else "bad"
    return badge(duration(seconds), kind) if kind else tag("span", duration(seconds))


def cause(found: Diagnosis | None) -> Html:
    return tag("span", NONE, class_="dim") if found is None else badge(found.cause.value, "warn")


def show(site: Site, name: str) -> None:
    crumb = tag("span", link("Groups", "/groups"), tag("span", " / ", class_="dim"), class_="crumb")
    page = Page(site, "Groups", name, head=tag("h1", crumb, name))
    page.watch(site.groups.group(name), render)


def render(group: GroupNow) -> Html:
    look = group.look
    if look is None:
        return notice("Nothing is known of this group.")
    return join(
        [
            figures(
                figure("State", look.state),
                figure("Members", count(len(look.members))),
                figure("Behind", duration(look.seconds), None, "bad" if look.seconds >= LATE_S else ""),
                figure("Records waiting", count(look.records)),
                figure("Coordinator", f"Broker {group.told['coordinator']}"),
            ),
            _why(group),
            _charts(group.points),
            _partitions(group),
            _members(group.told["members"]),
        ]
    )


def _why(group: GroupNow) -> Html:
    found = group.diagnosis
    if found is not None:
        said = join([tag("strong", f"{found.cause.value.capitalize()}. "), found.sentence])
        return notice(said, "warn", tag("p", found.remedy))
    assert group.look is not None
    if not group.look.records:
        return notice("The group has read everything.", "good")
    if group.points[-1].at_ms - group.points[0].at_ms < LOOKS_MIN_MS:
        return notice("Looking on for a few seconds, to see whether what waits grows, and why.")
    return notice("The group keeps up or catches up: what waits does not grow.", "good")


def _charts(points: Sequence[Point]) -> Html:
    slowest = Series(name="Slowest partition", points=[(point.at_ms, point.seconds) for point in points])
    ages = _worst(points) or [slowest]
    waiting = [Series(name="All partitions", points=[(point.at_ms, float(point.records)) for point in points])]
    return tag(
        "div",
        panel("Seconds behind", line_chart(ages, label="Seconds behind over time", shows=duration)),
        panel("Records waiting", line_chart(waiting, label="Records waiting over time", shows=short)),
        class_="charts",
    )


def _worst(points: Sequence[Point]) -> list[Series]:
    """Those that lag most now, where there is more than one."""
    now = [at for at, seconds in points[-1].worst if seconds > 0] if points else []
    if len(now) < 2:
        return []
    return [Series(name=str(at), points=_line(at, points)) for at in now[:WORST]]


def _line(at: TopicPartition, points: Sequence[Point]) -> list[tuple[int, float]]:
    found = ((point.at_ms, dict(point.worst).get(at)) for point in points)
    return [(at_ms, seconds) for at_ms, seconds in found if seconds is not None]


def _partitions(group: GroupNow) -> Html:
    assert group.look is not None
    names = group.look.members
    suspects = set(group.diagnosis.partitions) if group.diagnosis is not None else set()
    rows = [
        [
            join(
                [
                    link(str(at), f"{path('topics', at.topic, 'messages')}?{_next(at, each.committed)}"),
                    _mark(at in suspects),
                ]
            ),
            count(each.committed),
            count(each.end),
            count(each.records),
            late(each.seconds),
            NONE if each.member is None else names.get(each.member, each.member),
        ]
        for at, each in sorted(group.look.partitions.items(), key=lambda pair: (-(pair[1].records or 0), pair[0]))
    ]
    return panel(
        "Partitions", table(PARTITION_COLUMNS, rows, label="Partitions", empty="The group has read nothing yet.")
    )


def _mark(is_suspect: bool) -> Html:
    return join([" ", badge("lags", "warn")]) if is_suspect else Html("")


def _next(at: TopicPartition, committed: int | None) -> str:
    return f"start=offset&offset={committed or 0}&partition={at.partition}"


def _members(members: Sequence[dict[str, Any]]) -> Html:
    rows = [
        [
            tag("span", each["consumer_id"] or each["client_id"] or each["member_id"], title=member_name(each)),
            str(each["host"] or NONE).removeprefix("/"),
            count(len(each["assignment"])),
            tag("span", _reads(each["assignment"]), class_="dim"),
        ]
        for each in members
    ]
    return panel("Members", table(MEMBER_COLUMNS, rows, label="Members", empty="There are none."))


def _reads(assignment: Sequence[dict[str, Any]]) -> str:
    named = [f"{each['topic']}-{each['partition']}" for each in assignment]
    more = f" and {len(named) - READS_SHOWN} more" if len(named) > READS_SHOWN else ""
    return ", ".join(named[:READS_SHOWN]) + more
