"""When a JVM is warm: when its compilers have come to rest.

A JVM compiles what runs often in threads of its own, beside what it runs. How long that takes depends on the machine's
hour: on two cores of an AMD EPYC the compilers of Java's producer took half a core for five seconds in a quick one and
for more than twelve in a slow one. Until then the client and the broker have less of the machine, and what a JVM does
costs more. So what waits for a fixed time measures the compiler, of whoever is a JVM.
"""

import time
from collections.abc import Callable, Iterable

from bench.processes import compiler_cpu_s

REST_SHARE = 0.1
"""Of a core. A little is always compiled anew."""


class Compilers:
    """Those of some processes, looked at now and then. A process that is no JVM has none."""

    def __init__(self, pids: Iterable[int], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._pids = list(pids)
        self._clock = clock
        self._looked_s = clock()
        self._spent_s = self._spent()

    def _spent(self) -> dict[int, float]:
        return {pid: compiler_cpu_s(pid) for pid in self._pids}

    def share(self) -> float:
        """Of a core, since the last look."""
        now_s, spent_s = self._clock(), self._spent()
        # Less than before: a compiler that has nothing to do is ended, and what it took is not told any more.
        taken_s = sum(max(0.0, spent_s[pid] - self._spent_s[pid]) for pid in self._pids)
        past_s = now_s - self._looked_s
        self._looked_s, self._spent_s = now_s, spent_s
        return taken_s / past_s if past_s > 0 else 0.0
