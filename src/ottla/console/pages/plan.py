"""What should be elsewhere, and why: what `ottla cluster rebalance` would carry out. Nothing is changed here."""

from __future__ import annotations

from typing import Any

from ottla.console.frame import LOADING, Page
from ottla.console.markup import Child, Column, Html, join, link, notice, panel, path, table, tag
from ottla.console.site import Site
from ottla.console.text import plural

COLUMNS = (Column("Partition"), Column("Is on"), Column("Goes to"), Column("Why"))
ROWS_MAX = 500


def show(site: Site) -> None:
    page = Page(site, "Balance", "Balance")
    shown = page.live(LOADING)

    async def load() -> None:
        shown.show(render(await site.source.plan()))

    page.run_while_open(load)


def render(plan: dict[str, Any]) -> Html:
    moves = sorted(plan["moves"], key=lambda move: (move["topic"], move["partition"]))
    rows = (_row(move) for move in moves[:ROWS_MAX])
    blocked = [
        notice(f"{each['topic']}-{each['partition']} can't leave broker {each['broker']}: {each['reason']}.", "warn")
        for each in plan["blocked"]
    ]
    how = tag(
        "p",
        "This is a preview. ",
        tag("code", "ottla cluster rebalance"),
        " carries it out, a few partitions at a time.",
        class_="dim",
    )
    if not moves:
        return join([*blocked, notice("Nothing has to move: replicas and racks are in balance.", "good")])
    shown = table(COLUMNS, rows, label="Moves", empty="")
    more = tag("div", f"and {len(moves) - ROWS_MAX} more", class_="foot") if len(moves) > ROWS_MAX else None
    return join([*blocked, panel(f"{plural(len(moves), 'partition')} would move", shown, more, side=how)])


def _row(move: dict[str, Any]) -> list[Child]:
    return [
        link(f"{move['topic']}-{move['partition']}", path("topics", move["topic"])),
        _brokers(move["before"], move["replicas"], "out"),
        _brokers(move["replicas"], move["before"], "leader"),
        move["reason"],
    ]


def _brokers(brokers: list[int], others: list[int], kind: str) -> Html:
    """Those that the other side does not have stand out."""
    return join(tag("span", broker, class_="replica" if broker in others else f"replica {kind}") for broker in brokers)
