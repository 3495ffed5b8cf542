"""Metrics that every process with the API has: of itself, and of its HTTP side."""

from __future__ import annotations

import asyncio
import os
import resource
from typing import TYPE_CHECKING

from ottla.observability.metrics import NO_LABELS, Histogram, labelled

if TYPE_CHECKING:
    from ottla.http.api import Api
    from ottla.http.edge import Edge
    from ottla.observability.metrics import Text

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
DELAY_EVERY_S = 1
"""At whole seconds of the monotonic clock, when a node is awake for its heartbeats anyway."""


class LoopDelay:
    """How late the event loop is: what a timer is off by."""

    def __init__(self) -> None:
        self.seen = Histogram()
        self._most_s = 0.0
        self._due = 0.0

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due = (loop.time() // DELAY_EVERY_S + 1) * DELAY_EVERY_S
        loop.call_at(self._due, self._measure, loop)

    def _measure(self, loop: asyncio.AbstractEventLoop) -> None:
        late_s = max(0.0, loop.time() - self._due)
        self.seen.record(late_s * 1_000_000)
        self._most_s = max(self._most_s, late_s)
        self.start(loop)

    def take_most_s(self) -> float:
        """The most since this was last asked for."""
        most, self._most_s = self._most_s, 0.0
        return most


def process_metrics(text: Text, delay: LoopDelay) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    text.counter("ottla_process_cpu_seconds_total", "CPU time of the process.", used.ru_utime + used.ru_stime)
    text.gauge("ottla_process_resident_bytes", "Memory of the process.", _resident_bytes())
    text.histogram("ottla_event_loop_delay_seconds", "How late a timer was, once a second.", [(NO_LABELS, delay.seen)])
    text.gauge("ottla_event_loop_delay_max_seconds", "How late at most since the last scrape.", delay.take_most_s())


def http_metrics(text: Text, api: Api, edge: Edge) -> None:
    text.counters(
        "ottla_http_requests_total",
        "HTTP requests answered.",
        ((labelled(status=status), number) for status, number in sorted(edge.served.items())),
    )
    text.gauge("ottla_http_requests_under_way", "HTTP requests not answered yet.", edge.requests)
    text.counter("ottla_http_messages_in_total", "Messages written by HTTP.", api.producing.messages)
    text.counter("ottla_http_messages_out_total", "Messages read by HTTP.", api.consuming.messages)
    text.gauge("ottla_http_streams", "Live tails that are open.", api.tails.open)
    text.gauge(
        "ottla_http_group_members", "Consumers that this process is a group member for.", len(api.groups.members)
    )


def _resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as figures:
        return int(figures.read().split()[1]) * PAGE_BYTES
