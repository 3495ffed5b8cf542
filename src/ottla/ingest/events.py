"""Clients of a shop: what they do, what their devices measure, what they order. Some events are late, some come twice,
some are broken.

    client   {"event_id", "client_id", "event_time", "kind": "client", "action", "page"}
    metric   {…, "kind": "metric", "name", "value"}
    order    {…, "kind": "order", "order_id", "status": "placed" | "paid", "amount"}

Each event is made at a moment on the generator's own clock, which begins where it is told to and goes on by the rate:
the same seed and beginning give the same events to the byte. Whoever sends them waits for those moments, or doesn't.

What should become of an event is known when it is made (`Fate`), given that whoever processes them accepts events
that are at most `lateness_ms` old when they arrive. Nothing is made that is near this border.
"""

from __future__ import annotations

import heapq
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

__all__ = ["HEARTBEAT", "TOO_LATE", "Event", "Fate", "Generator", "IngestSettings", "heartbeat"]

HEARTBEAT: Final = "heartbeat"
TOO_LATE: Final = "too late"
ACTIVE_MS: Final = 20_000
"""A client is active for so long, then silent for twice as long: its events form sessions."""
PAID_SHARE: Final = 0.8
PAGES: Final = ("/", "/search", "/shoes", "/coats", "/cart", "/help")
ACTIONS: Final = ("sign_in", "view", "search", "sign_out")
METRICS: Final = ("temperature", "battery", "latency")


class Fate(StrEnum):
    GOOD = "good"
    DUPLICATE = "duplicate"
    """Of a good one: to be dropped."""
    DEAD = "dead"
    """To be set aside, for a reason that is known."""
    HEARTBEAT = "heartbeat"
    """Tells the time and nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestSettings:
    """What is made. Shares are of the events made; duplicates come on top."""

    rate: float = 100.0
    """Events a second, on the generator's clock."""
    clients: int = 20
    late: float = 0.05
    duplicate: float = 0.02
    malformed: float = 0.01
    too_late: float = 0.005
    lateness_ms: int = 600_000
    """How old an event may be when it arrives."""
    seed: int = 1

    def __post_init__(self) -> None:
        shares = (self.late, self.duplicate, self.malformed, self.too_late)
        if self.rate <= 0 or self.clients < 1 or self.lateness_ms < 1:
            raise ValueError("rate, clients and lateness must be positive")
        if min(shares) < 0 or self.late + self.malformed + self.too_late > 1 or self.duplicate > 1:
            raise ValueError("shares must be between 0 and 1, and late, malformed and too late together at most 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One record to be sent, and what should become of it."""

    key: bytes
    value: bytes | None
    timestamp_ms: int
    """When it is sent."""
    fate: Fate
    reason: str = ""
    """Of a dead one."""
    fields: dict[str, Any] = field(default_factory=dict)
    """What its JSON says, if it is good."""


@dataclass(order=True, slots=True)
class _Due:
    """What is sent later because of something sent earlier."""

    at_ms: int
    number: int
    make: Callable[[int], Event] = field(compare=False)


class Generator:
    """Iterates over events in the order in which they are sent, for ever."""

    def __init__(self, settings: IngestSettings, start_ms: int) -> None:
        self._settings = settings
        self._start_ms = start_ms
        self._random = random.Random(settings.seed)
        self._made = 0
        self._due: list[_Due] = []
        self._orders = 0

    def __iter__(self) -> Iterator[Event]:
        while True:
            now_ms = self._start_ms + int(self._made * 1_000 / self._settings.rate)
            while self._due and self._due[0].at_ms <= now_ms:
                due = heapq.heappop(self._due)
                yield self._sent(due.make(due.at_ms))
            self._made += 1
            yield self._sent(self._event(now_ms, self._fields(now_ms)))

    # One event

    def _fields(self, now_ms: int) -> dict[str, Any]:
        random_ = self._random
        fields: dict[str, Any] = {"event_id": f"{random_.getrandbits(96):024x}", "client_id": self._client(now_ms)}
        kind = random_.choices(("metric", "client", "order"), (5, 3, 2))[0]
        fields["kind"] = kind
        if kind == "client":
            fields |= {"action": random_.choice(ACTIONS), "page": random_.choice(PAGES)}
        elif kind == "metric":
            fields |= {"name": random_.choice(METRICS), "value": round(random_.gauss(20, 5), 2)}
        else:
            self._orders += 1
            order_id = f"order-{self._settings.seed}-{self._start_ms}-{self._orders}"
            fields |= {"order_id": order_id, "status": "placed", "amount": random_.randrange(500, 20_000) / 100}
            if random_.random() < PAID_SHARE:
                self._pay_later(fields, now_ms)
        return fields

    def _client(self, now_ms: int) -> str:
        """A few of them are active at a time, and the first ones more than the last."""
        third = (now_ms - self._start_ms) // ACTIVE_MS % 3
        active = [number for number in range(self._settings.clients) if number % 3 == third] or [0]
        return f"client-{active[min(int(self._random.expovariate(3) * len(active)), len(active) - 1)]}"

    def _pay_later(self, placed: dict[str, Any], now_ms: int) -> None:
        """Within the time that orders are given to be paid, which is that of late events; or a little after."""
        paid = {**placed, "event_id": f"{self._random.getrandbits(96):024x}", "status": "paid"}
        after_ms = int(self._random.uniform(0.05, 1.2) * self._settings.lateness_ms)
        self._later(now_ms + after_ms, lambda at_ms: self._event(at_ms, paid))

    def _event(self, now_ms: int, fields: dict[str, Any]) -> Event:
        settings, random_ = self._settings, self._random
        draw = random_.random()
        if draw < settings.malformed:
            value, reason = random_.choice(BREAKS[fields["kind"]])(_timed(fields, now_ms))
            return Event(key=_key(fields), value=value, timestamp_ms=now_ms, fate=Fate.DEAD, reason=reason)
        draw -= settings.malformed
        if draw < settings.too_late:
            old = _timed(fields, now_ms - int(random_.uniform(2, 4) * settings.lateness_ms))
            return Event(key=_key(fields), value=_json(old), timestamp_ms=now_ms, fate=Fate.DEAD, reason=TOO_LATE)
        draw -= settings.too_late
        late_ms = int(random_.uniform(0.1, 0.4) * settings.lateness_ms) if draw < settings.late else 0
        timed = _timed(fields, now_ms - late_ms)
        return Event(key=_key(fields), value=_json(timed), timestamp_ms=now_ms, fate=Fate.GOOD, fields=timed)

    def _sent(self, event: Event) -> Event:
        if event.fate is Fate.GOOD and self._random.random() < self._settings.duplicate:
            again_ms = event.timestamp_ms + int(self._random.uniform(0, 0.2) * self._settings.lateness_ms)
            self._later(again_ms, lambda at_ms: _again(event, at_ms))
        return event

    def _later(self, at_ms: int, make: Callable[[int], Event]) -> None:
        heapq.heappush(self._due, _Due(at_ms, self._made * 4 + len(self._due), make))


def heartbeat(now_ms: int, client_id: str = HEARTBEAT) -> Event:
    """An event that says what time it is: where nothing happens for a while, windows close all the same."""
    fields = _timed({"event_id": f"{HEARTBEAT}-{now_ms}", "client_id": client_id, "kind": HEARTBEAT}, now_ms)
    return Event(key=client_id.encode(), value=_json(fields), timestamp_ms=now_ms, fate=Fate.HEARTBEAT)


def _again(event: Event, at_ms: int) -> Event:
    return Event(key=event.key, value=event.value, timestamp_ms=at_ms, fate=Fate.DUPLICATE, fields=event.fields)


def _key(fields: dict[str, Any]) -> bytes:
    return str(fields["client_id"]).encode()


def _timed(fields: dict[str, Any], at_ms: int) -> dict[str, Any]:
    moment = datetime.fromtimestamp(at_ms / 1_000, UTC)
    return {**fields, "event_time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")}


def _json(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


Break = Callable[[dict[str, Any]], tuple[bytes | None, str]]
"""Breaks the fields of an event; what is sent, and why it is refused."""


def _nothing(fields: dict[str, Any]) -> tuple[None, str]:
    return None, "no value"


def _cut_off(fields: dict[str, Any]) -> tuple[bytes, str]:
    whole = _json(fields)
    return whole[: len(whole) * 2 // 3], "not JSON"


def _without(name: str) -> Break:
    return lambda fields: (_json({key: value for key, value in fields.items() if key != name}), f"no {name}")


def _with(name: str, value: object, reason: str) -> Break:
    return lambda fields: (_json({**fields, name: value}), reason)


_ANY: Final = (
    _nothing,
    _cut_off,
    _without("event_id"),
    _without("client_id"),
    _without("event_time"),
    _with("event_time", "yesterday", "event_time is not a time"),
    _with("event_time", "2999-12-31T23:59:59Z", "from the future"),
    _with("kind", "riddle", "unknown kind"),
)
BREAKS: Final[dict[str, tuple[Break, ...]]] = {
    "client": _ANY,
    "metric": (*_ANY, _with("value", "many", "value is not a number")),
    "order": (
        *_ANY,
        _without("order_id"),
        _with("status", "lost", "unknown status"),
        _with("amount", {"eur": 5}, "amount is not a number"),
    ),
}
