"""Transactions that are open, and those that nobody will end."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.console.frame import Page
from ottla.console.markup import Child, Column, Html, badge, join, link, notice, panel, path, table, tag
from ottla.console.shared import Shared
from ottla.console.site import Site
from ottla.console.source import now_ms
from ottla.console.text import ago, count, duration, ids, plural
from ottla.console.transactions import Hanging, OpenTransaction, TransactionsNow, open_transactions
from ottla.types import TopicPartition

COLUMNS = (
    Column("Transactional id"),
    Column("State"),
    Column("Open for", number=True),
    Column("Time-out", number=True, wide=True),
    Column("Producer", number=True, wide=True),
    Column("Coordinator", number=True, wide=True),
    Column("Partitions"),
)
HANGING_COLUMNS = (
    Column("Partition"),
    Column("Producer", number=True),
    Column("Since offset", number=True),
    Column("Last written", number=True),
)
EVERY_S = 3.0
NAMED_MAX = 4


def show(site: Site) -> None:
    page = Page(site, "Transactions", "Open transactions")
    page.watch(Shared(lambda: open_transactions(site.api), every_s=EVERY_S), render)


def render(found: TransactionsNow) -> Html:
    now = now_ms()
    return join(
        [
            notice(f"Brokers {ids(found.silent)} did not answer: what they coordinate is missing here.", "warn")
            if found.silent
            else None,
            panel(
                f"{plural(len(found.open), 'open transaction')}",
                table(
                    COLUMNS,
                    (_row(each, now) for each in found.open),
                    label="Open transactions",
                    empty="No transaction is open.",
                    keys=[each.transactional_id for each in found.open],
                ),
            ),
            _hanging(found.hanging, now) if found.hanging else None,
        ]
    )


def _row(each: OpenTransaction, now: int) -> list[Child]:
    open_ms = max(0, now - each.began_ms) if each.began_ms >= 0 else None
    is_late = open_ms is not None and open_ms > each.timeout_ms / 2
    age = duration(None if open_ms is None else open_ms / 1000)
    return [
        each.transactional_id,
        badge(each.state, "accent" if each.state == "Ongoing" else "warn"),
        badge(age, "warn") if is_late else age,
        duration(each.timeout_ms / 1000),
        f"{each.producer_id}, epoch {each.producer_epoch}",
        f"Broker {each.coordinator}",
        _places(each.partitions),
    ]


def _places(places: tuple[TopicPartition, ...]) -> Html:
    named = join((link(str(at), path("topics", at.topic)) for at in places[:NAMED_MAX]), ", ")
    return join([named, f" and {len(places) - NAMED_MAX} more" if len(places) > NAMED_MAX else None])


def _hanging(hanging: tuple[Hanging, ...], now: int) -> Html:
    rows: Iterable[list[Child]] = (
        [
            link(str(each.at), path("topics", each.at.topic)),
            each.producer_id,
            count(each.start_offset),
            ago(each.last_ms, now),
        ]
        for each in hanging
    )
    return panel(
        "Hanging: no coordinator knows of these",
        notice(
            "Readers of committed records wait at them for ever. End them with ",
            "bad",
            tag("p", tag("code", "ottla txn abort --partition TOPIC:N --start-offset OFFSET")),
        ),
        table(HANGING_COLUMNS, rows, label="Hanging transactions", empty=""),
    )
