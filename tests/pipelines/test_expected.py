"""What must come out, on events that can be counted by hand."""

from __future__ import annotations

from decimal import Decimal

from ottla.ingest.truth import GoodEvent, Truth
from ottla.pipelines.expected import Expected, Order, Window
from ottla.pipelines.settings import PipelineSettings

SETTINGS = PipelineSettings(window_s=10, slide_s=5, session_gap_s=5, payment_s=8)


def event(number: int, at_ms: int, *, client: str = "ann", kind: str = "metric", **order: object) -> GoodEvent:
    amount = 1.5 if kind == "order" else None
    order_id = str(order["order_id"]) if kind == "order" else None
    status = str(order["status"]) if kind == "order" else None
    return GoodEvent(
        event_id=f"e{number}", client_id=client, kind=kind, event_time_ms=at_ms, order_id=order_id, status=status,
        amount=amount,
    )  # fmt: skip


def expected(*events: GoodEvent) -> Expected:
    return Expected.of(Truth(good=list(events)), SETTINGS)


def spans(windows: list[Window]) -> list[tuple[str, int, int, int]]:
    return [(window.client_id, window.start_ms, window.end_ms, window.events) for window in windows]


def test_a_tumbling_window_holds_its_beginning_and_not_its_end() -> None:
    found = expected(event(1, 0), event(2, 9_999), event(3, 10_000), event(4, 3, client="bob"))

    assert spans(found.tumbling) == [("ann", 0, 10_000, 2), ("ann", 10_000, 20_000, 1), ("bob", 0, 10_000, 1)]


def test_an_event_is_in_as_many_sliding_windows_as_fit_over_it() -> None:
    found = expected(event(1, 12_000))

    assert spans(found.sliding) == [("ann", 5_000, 15_000, 1), ("ann", 10_000, 20_000, 1)]


def test_a_session_ends_where_a_client_is_silent_for_longer_than_the_gap() -> None:
    found = expected(event(1, 0), event(3, 5_000), event(2, 3_000), event(4, 10_001))

    assert spans(found.sessions) == [("ann", 0, 10_000, 3), ("ann", 10_001, 15_001, 1)]


def test_an_order_is_paid_if_the_payment_came_in_its_time() -> None:
    found = expected(
        event(1, 0, kind="order", order_id="a", status="placed"),
        event(2, 8_000, kind="order", order_id="a", status="paid"),
        event(3, 0, kind="order", order_id="b", status="placed"),
        event(4, 8_001, kind="order", order_id="b", status="paid"),
        event(5, 0, kind="order", order_id="c", status="placed"),
        event(6, 1_000, kind="order", order_id="d", status="paid"),
    )
    amount = Decimal("1.5")

    assert found.orders == [
        Order("a", "ann", amount, 0, 8_000), Order("b", "ann", amount, 0, None), Order("c", "ann", amount, 0, None),
    ]  # fmt: skip


def test_figures_of_a_window_count_metrics_and_orders_placed() -> None:
    [window] = expected(
        event(1, 0),
        event(2, 1, kind="order", order_id="a", status="placed"),
        event(3, 2, kind="order", order_id="a", status="paid"),
    ).tumbling

    assert (window.events, window.metrics, window.orders, window.amount) == (3, 1, 1, Decimal("1.5"))
