"""The clock of a simulated machine: the calendar's time may be wrong and may jump, the other only goes forward."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.testing.sim_world import World

EPOCH_MS = 1_700_000_000_000
"""When simulations begin."""


class SimulatedClock:
    """`ports.Clock` on virtual time."""

    def __init__(self, world: World, *, skew_ms: int = 0) -> None:
        self._world = world
        self._skew_ms = skew_ms

    def now_ms(self) -> int:
        return EPOCH_MS + self._skew_ms + int(self._world.now * 1000)

    def monotonic_ms(self) -> int:
        return int(self._world.now * 1000)

    def set_wrong_by(self, skew_ms: int) -> None:
        """Somebody sets the calendar's time: it jumps."""
        self._skew_ms = skew_ms
