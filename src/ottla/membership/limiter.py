"""Not the same thing again so soon: what anybody out there can provoke must be bounded."""

from collections.abc import Hashable

KEYS_MAX = 256


class Limiter:
    """Remembers the last time of a bounded number of things; the oldest are forgotten."""

    __slots__ = ("_last_ms",)

    def __init__(self) -> None:
        self._last_ms: dict[Hashable, int] = {}

    def allows(self, what: Hashable, now_ms: int, *, every_ms: int) -> bool:
        """Whether `what` may be done again; if so, it counts as done now."""
        last_ms = self._last_ms.get(what)
        if last_ms is not None and now_ms - last_ms < every_ms:
            return False
        self._last_ms.pop(what, None)
        self._last_ms[what] = now_ms
        if len(self._last_ms) > KEYS_MAX:
            del self._last_ms[next(iter(self._last_ms))]
        return True
