"""How a process keeps out of the way of others: it runs, reads and writes when nobody else wants to.

With a low niceness alone a process that is computing is not put aside at once when a broker wakes up, and its writes
stand in line with those that clients wait for. The kernel's idle classes do both; on a machine that is never idle they
would also mean never, so whoever uses them goes on as an ordinary process after a while.
"""

from __future__ import annotations

import os
from contextlib import suppress

from ottla.runtime.c_library import system_call

NICENESS = 10
_IOPRIO_SET = {"x86_64": 251, "aarch64": 30}
"""By kind of machine."""
_IOPRIO_WHO_PROCESS = 1
_IOPRIO_CLASS_SHIFT = 13
_IOPRIO_BEST_EFFORT, _IOPRIO_IDLE = 2, 3
_IOPRIO_LOWEST = 7


def step_aside() -> None:
    """The CPU and the disk, when nobody else wants them. For this process, and what it can't have it does without."""
    _schedule(os.SCHED_IDLE)
    _set_io_priority(_IOPRIO_IDLE, 0)


def take_part() -> None:
    """A share, though a small one, whoever else wants it."""
    _schedule(os.SCHED_BATCH)
    _set_io_priority(_IOPRIO_BEST_EFFORT, _IOPRIO_LOWEST)


def _schedule(policy: int) -> None:
    with suppress(OSError):  # a sandbox may forbid it
        os.sched_setscheduler(0, policy, os.sched_param(0))


def _set_io_priority(kind: int, level: int) -> None:
    with suppress(OSError):
        system_call(_IOPRIO_SET, _IOPRIO_WHO_PROCESS, 0, kind << _IOPRIO_CLASS_SHIFT | level)
