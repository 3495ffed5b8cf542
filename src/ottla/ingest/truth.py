"""What should come out of what was sent. One line of JSON per event, in the order of sending, so that a generator that
is stopped leaves a file that says what it sent."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Self, TextIO

from ottla.ingest.events import Event, Fate

__all__ = ["GoodEvent", "Truth", "TruthFile"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GoodEvent:
    event_id: str
    client_id: str
    kind: str
    event_time_ms: int
    order_id: str | None
    status: str | None
    amount: float | None

    @classmethod
    def of(cls, fields: dict[str, Any]) -> Self:
        return cls(
            event_id=fields["event_id"],
            client_id=fields["client_id"],
            kind=fields["kind"],
            event_time_ms=round(datetime.fromisoformat(fields["event_time"]).timestamp() * 1_000),
            order_id=fields.get("order_id"),
            status=fields.get("status"),
            amount=fields.get("amount"),
        )


@dataclass(slots=True)
class Truth:
    """Of all events that were sent, heartbeats left out."""

    sent: int = 0
    duplicates: int = 0
    good: list[GoodEvent] = field(default_factory=list)
    dead: Counter[str] = field(default_factory=Counter)
    """How many for each reason."""
    heartbeats: int = 0

    def add(self, event: Event) -> None:
        self._add(event.fate, event.reason, event.fields)

    def _add(self, fate: Fate, reason: str, fields: dict[str, Any]) -> None:
        if fate is Fate.HEARTBEAT:
            self.heartbeats += 1
            return
        self.sent += 1
        if fate is Fate.GOOD:
            self.good.append(GoodEvent.of(fields))
        elif fate is Fate.DUPLICATE:
            self.duplicates += 1
        else:
            self.dead[reason] += 1

    @classmethod
    def load(cls, path: Path) -> Self:
        truth = cls()
        with path.open() as file:
            for line in file:
                told = json.loads(line)
                truth._add(Fate(told["fate"]), told.get("reason", ""), told.get("fields", {}))
        return truth


class TruthFile:
    """Appends to a file what was acknowledged. A second run goes on with the same file."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: TextIO = path.open("a")

    def add(self, event: Event) -> None:
        told: dict[str, object] = {"fate": event.fate.value}
        if event.reason:
            told["reason"] = event.reason
        if event.fate is Fate.GOOD:
            told["fields"] = event.fields
        self._file.write(json.dumps(told, separators=(",", ":")) + "\n")

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()
