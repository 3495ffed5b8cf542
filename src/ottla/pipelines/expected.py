"""What the pipeline's results must be for what was sent: computed in the plainest way from all events at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from ottla.ingest.truth import GoodEvent, Truth
from ottla.pipelines.settings import PipelineSettings

__all__ = ["Expected", "Order", "Window"]


class Window(NamedTuple):
    client_id: str
    start_ms: int
    end_ms: int
    events: int
    metrics: int
    orders: int
    amount: Decimal


class Order(NamedTuple):
    order_id: str
    client_id: str
    amount: Decimal
    placed_ms: int
    paid_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    clean: list[str]
    """Ids of events, sorted, like all below."""
    tumbling: list[Window]
    sliding: list[Window]
    sessions: list[Window]
    orders: list[Order]
    dead: dict[str, int]

    @classmethod
    def of(cls, truth: Truth, settings: PipelineSettings) -> Expected:
        good = truth.good
        return cls(
            clean=sorted(event.event_id for event in good),
            tumbling=_fixed(good, settings.window_s * 1_000, settings.window_s * 1_000),
            sliding=_fixed(good, settings.window_s * 1_000, settings.slide_s * 1_000),
            sessions=_sessions(good, settings.session_gap_s * 1_000),
            orders=_orders(good, settings.payment_s * 1_000),
            dead=dict(truth.dead),
        )


def _fixed(events: Iterable[GoodEvent], length_ms: int, slide_ms: int) -> list[Window]:
    found: dict[tuple[str, int], list[GoodEvent]] = defaultdict(list)
    for event in events:
        last = event.event_time_ms - event.event_time_ms % slide_ms
        for start in range(last, event.event_time_ms - length_ms, -slide_ms):
            found[event.client_id, start].append(event)
    return sorted(_window(client, start, start + length_ms, inside) for (client, start), inside in found.items())


def _sessions(events: Iterable[GoodEvent], gap_ms: int) -> list[Window]:
    by_client: dict[str, list[GoodEvent]] = defaultdict(list)
    for event in sorted(events, key=lambda event: event.event_time_ms):
        by_client[event.client_id].append(event)
    windows = []
    for client, mine in by_client.items():
        session = [mine[0]]
        for event in mine[1:]:
            if event.event_time_ms - session[-1].event_time_ms > gap_ms:
                windows.append(_session(client, session, gap_ms))
                session = []
            session.append(event)
        windows.append(_session(client, session, gap_ms))
    return sorted(windows)


def _session(client: str, events: list[GoodEvent], gap_ms: int) -> Window:
    return _window(client, events[0].event_time_ms, events[-1].event_time_ms + gap_ms, events)


def _window(client: str, start_ms: int, end_ms: int, events: list[GoodEvent]) -> Window:
    placed = [event for event in events if event.status == "placed"]
    return Window(
        client_id=client,
        start_ms=start_ms,
        end_ms=end_ms,
        events=len(events),
        metrics=sum(event.kind == "metric" for event in events),
        orders=len(placed),
        amount=sum((_amount(event) for event in placed), Decimal(0)),
    )


def _orders(events: Iterable[GoodEvent], payment_ms: int) -> list[Order]:
    events = list(events)
    paid = {event.order_id: event.event_time_ms for event in events if event.status == "paid"}
    orders = []
    for event in events:
        if event.status == "placed" and event.order_id is not None:
            at_ms = paid.get(event.order_id)
            in_time = at_ms is not None and event.event_time_ms <= at_ms <= event.event_time_ms + payment_ms
            paid_ms = at_ms if in_time else None
            orders.append(Order(event.order_id, event.client_id, _amount(event), event.event_time_ms, paid_ms))
    return sorted(orders, key=lambda order: order.order_id)


def _amount(event: GoodEvent) -> Decimal:
    return Decimal(str(event.amount))
