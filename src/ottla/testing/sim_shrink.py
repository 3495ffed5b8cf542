"""Makes a failing run smaller: a plan with fewer faults, and less of what came after them, that breaks a rule too.

A run without one of its faults is another run from there on, so nothing is sure: whatever fails in the same way is
taken. Halves are left out first, then quarters, and in the end single strikes.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.testing.sim_cluster import SimulationFailedError
from ottla.testing.sim_plan import Plan

Attempt = Callable[[Plan], SimulationFailedError | None]
"""Runs a plan; how it failed, if it did."""
RUNS_MAX = 60


def shrink(found: SimulationFailedError, attempt: Attempt, *, runs_max: int = RUNS_MAX) -> SimulationFailedError:
    """The smallest failure that was found within so many runs: `found` itself if there is none."""
    return _Shrinker(found, attempt, runs_max).run()


class _Shrinker:
    def __init__(self, found: SimulationFailedError, attempt: Attempt, runs_max: int) -> None:
        self._best = found
        self._attempt = attempt
        self._runs_left = runs_max
        self._rules = {violation.rule for violation in found.violations}

    def run(self) -> SimulationFailedError:
        size = max(len(self._best.plan) // 2, 1)
        while self._runs_left and self._best.plan:
            if not self._leave_out(size):
                if size == 1:
                    break
                size //= 2
            size = min(size, max(len(self._best.plan) // 2, 1))
        return self._best

    def _leave_out(self, size: int) -> bool:
        """Whether the run fails without some `size` strikes in a row. The last ones are the likeliest to be no use."""
        plan = list(self._best.plan)
        for start in range(len(plan) - size, -size, -size):
            less = plan[: max(start, 0)] + plan[start + size :]
            if self._runs_left and self._fails(less):
                return True
        return False

    def _fails(self, plan: Plan) -> bool:
        self._runs_left -= 1
        failure = self._attempt(plan)
        if failure is None or not self._rules & {violation.rule for violation in failure.violations}:
            return False
        self._best = failure
        return True
