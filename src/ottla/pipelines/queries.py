"""Windows and the join, in SQL: Spark's declarative pipelines take watermarks on their own tables in SQL only.

Heartbeats are in `clean` because they move the watermark: they must get as far as the operator that has it. So they are
counted as nothing and left out of the results, and no filter may come before that. Where windows are grouped, that is
easy (`HAVING`); in the join see `ORDERS`.
"""

from __future__ import annotations

from typing import Final

from ottla.ingest.events import HEARTBEAT
from ottla.pipelines.settings import PipelineSettings

__all__ = ["CLEAN_COLUMNS", "orders", "sessions", "sliding", "tumbling"]

CLEAN_COLUMNS: Final = (
    "event_id", "client_id", "kind", "event_time", "arrived_at", "action", "page", "name", "value", "order_id",
    "status", "amount",
)  # fmt: skip

FIGURES: Final = f"""
    count_if(kind <> '{HEARTBEAT}') AS events,
    count_if(kind = 'metric') AS metrics,
    avg(value) AS mean_value,
    count_if(status = 'placed') AS orders,
    coalesce(sum(amount) FILTER (WHERE status = 'placed'), 0) AS amount"""

WINDOWS: Final = """
SELECT client_id, {window}.start AS window_start, {window}.end AS window_end, {figures},
    to_date({window}.start) AS date
FROM STREAM clean WATERMARK event_time DELAY OF INTERVAL {watermark_s} SECONDS
GROUP BY client_id, {call}
HAVING events > 0"""

ORDERS: Final = """
SELECT placed.order_id, placed.client_id, amount, placed_at, paid_at, paid_at IS NOT NULL AS is_paid,
    to_date(placed_at) AS date
FROM (
    SELECT coalesce(order_id, event_id) AS order_id, client_id, kind, amount, event_time AS placed_at
    FROM STREAM clean WATERMARK event_time DELAY OF INTERVAL {watermark_s} SECONDS
    WHERE status = 'placed' OR kind = '{heartbeat}'
) AS placed LEFT JOIN (
    SELECT coalesce(order_id, event_id) AS paid_order_id, event_time AS paid_at
    FROM STREAM clean WATERMARK event_time DELAY OF INTERVAL {watermark_s} SECONDS
    WHERE status = 'paid' OR kind = '{heartbeat}'
) AS paid
ON placed.order_id = paid_order_id AND paid_at BETWEEN placed_at AND placed_at + INTERVAL {payment_s} SECONDS
-- Always true or false as its first half says; but a filter on the column of the watermark stays behind the join.
WHERE placed.kind <> '{heartbeat}' OR unix_micros(placed_at) < 0"""


def tumbling(settings: PipelineSettings) -> str:
    return _windows(settings, "window", f"window(event_time, '{settings.window_s} seconds')")


def sliding(settings: PipelineSettings) -> str:
    lengths = f"'{settings.window_s} seconds', '{settings.slide_s} seconds'"
    return _windows(settings, "window", f"window(event_time, {lengths})")


def sessions(settings: PipelineSettings) -> str:
    return _windows(settings, "session_window", f"session_window(event_time, '{settings.session_gap_s} seconds')")


def _windows(settings: PipelineSettings, name: str, call: str) -> str:
    return WINDOWS.format(window=name, call=call, figures=FIGURES, watermark_s=settings.watermark_s)


def orders(settings: PipelineSettings) -> str:
    """Every order that was placed, once it is paid or its time is over."""
    return ORDERS.format(heartbeat=HEARTBEAT, watermark_s=settings.watermark_s, payment_s=settings.payment_s)
