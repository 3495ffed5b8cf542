"""Batches of idempotent producers that came for a partition before it was led here.

A client may know the new leader before that knows itself: it was told by another broker, and sends all that it has
under way, several batches. The first is turned away. If the node comes to lead before the next is served, that one
would find a gap before it; so the log is told what was turned away, and those behind it wait for it (`Refusals`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ottla.storage.refusals import REMEMBERED_MS, Numbered, numbered

if TYPE_CHECKING:
    from ottla.errors import ErrorCode
    from ottla.ports import Bytes
    from ottla.storage.refusals import Refusals
    from ottla.types import TopicId

BATCHES_MAX = 10_000
"""That are remembered; all are forgotten when there are more. It takes clients that have not heard of the new leaders
for long."""

Place: TypeAlias = "tuple[str | TopicId, int]"
"""A partition as the client has named it: the topic need not be known here."""


class TurnedAway:
    def __init__(self) -> None:
        self._by_place: dict[Place, list[tuple[Numbered, ErrorCode, int]]] = {}
        self._count = 0

    def note(self, place: Place, records: Bytes, code: ErrorCode, now_ms: int) -> None:
        batch = numbered(records)
        if batch is None:
            return
        if self._count >= BATCHES_MAX:
            self._by_place.clear()
            self._count = 0
        self._by_place.setdefault(place, []).append((batch, code, now_ms))
        self._count += 1

    def tell(self, place: Place, refusals: Refusals, now_ms: int) -> None:
        """The partition is led here now."""
        batches = self._by_place.pop(place, ())
        self._count -= len(batches)
        for batch, code, at_ms in batches:
            if now_ms - at_ms <= REMEMBERED_MS:
                refusals.note(*batch, code)
