"""A run from which the host took too much of the machine is made again.

A virtual machine shares its cores with others. Where the host says when it gave them to somebody else
(`machine.Stolen`), a run in which it did can be told from one in which it did not, without a look at what was measured:
with a tenth of the cores stolen a broker had half of its rate and twice the CPU time a message. So such a run is made
again, twice at the most, and the one from which least was stolen counts. That is the same for every broker.
"""

import time
from collections.abc import Callable
from dataclasses import replace

from bench.plan import Run

STOLEN_SHARE_MAX = 0.02
TRIES = 3
LONG_S = 60.0
"""What takes longer is a measurement of minutes, in which a moment counts for little, and is not made again."""


class Again:
    """Of one plan. So many runs are made again at the most: in an hour in which all are disturbed it ends as well."""

    def __init__(self, most: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._left = most
        self._clock = clock

    def least_disturbed(self, make: Callable[[], Run]) -> Run:
        """What `make` returns, once or several times. A run that failed is taken as it is."""
        began_s = self._clock()
        best = last = make()
        took_s, tries = self._clock() - began_s, 1
        while self._wants_another(last, tries, took_s):
            self._left -= 1
            tries += 1
            last = make()
            if "error" not in last.figures and last.stolen < best.stolen:
                best = last
        return replace(best, tries=tries)

    def _wants_another(self, last: Run, tries: int, took_s: float) -> bool:
        is_disturbed = "error" not in last.figures and last.stolen > STOLEN_SHARE_MAX
        return is_disturbed and tries < TRIES and self._left > 0 and took_s <= LONG_S
