"""Who runs first when there is more to do than processors.

A broker's loop works in short turns, and sleeps after each until the disk or a client has something for it. It asks the
kernel for turns as short as that, and is then let in sooner among those who compute for long (decisions/0038).

A process that cleans keeps out of the way: it runs, reads and writes when nobody else wants to. With a low niceness
alone a process that is computing is not put aside at once when a broker wakes up, and its writes stand in line with
those that clients wait for. The kernel's idle classes do both; on a machine that is never idle they would also mean
never, so whoever uses them goes on as an ordinary process after a while.
"""

from __future__ import annotations

import os
import struct

NICENESS = 10
TURN_NS = 100_000
"""The shortest turn that Linux gives."""
_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}
_IOPRIO_SET = {"x86_64": 251, "aarch64": 30}
"""The numbers of system calls; Python has no functions for them."""
_SCHED_ATTR = struct.Struct("IIQiIQQQ")
"""Size, policy, flags, niceness, priority, length of a turn in ns, and two that only the deadline class has."""
_IOPRIO_WHO_PROCESS = 1
_IOPRIO_CLASS_SHIFT = 13
_IOPRIO_BEST_EFFORT, _IOPRIO_IDLE = 2, 3
_IOPRIO_LOWEST = 7


def take_short_turns() -> None:
    """For this thread, and those that it starts from now on. A kernel before 6.12 takes no notice."""
    if os.sched_getscheduler(0) != os.SCHED_OTHER:
        return  # somebody has chosen for it
    niceness = os.getpriority(os.PRIO_PROCESS, 0)
    attributes = _SCHED_ATTR.pack(_SCHED_ATTR.size, os.SCHED_OTHER, 0, niceness, 0, TURN_NS, 0, 0)
    _system_call(_SCHED_SETATTR, 0, attributes, 0)


def step_aside() -> None:
    """The CPU and the disk, when nobody else wants them. For this process, and what it can't have it does without."""
    _schedule(os.SCHED_IDLE)
    _set_io_priority(_IOPRIO_IDLE, 0)


def take_part() -> None:
    """A share, though a small one, whoever else wants it."""
    _schedule(os.SCHED_BATCH)
    _set_io_priority(_IOPRIO_BEST_EFFORT, _IOPRIO_LOWEST)


def _schedule(policy: int) -> None:
    try:
        os.sched_setscheduler(0, policy, os.sched_param(0))
    except OSError:
        return  # a sandbox may forbid it


def _set_io_priority(kind: int, level: int) -> None:
    _system_call(_IOPRIO_SET, _IOPRIO_WHO_PROCESS, 0, kind << _IOPRIO_CLASS_SHIFT | level)


def _system_call(numbers: dict[str, int], *arguments: int | bytes) -> None:
    """Whether it is done or refused, as a sandbox may: it is a wish."""
    import ctypes

    number = numbers.get(os.uname().machine)
    if number is not None:
        ctypes.CDLL(None).syscall(number, *arguments)
