"""Spark's Python workers are used again and again: what keeps a task in them cheap.

After every task Spark has Python look for garbage in all that the process holds. Numba, pyarrow and what else a worker
has loaded is a million objects that never go away: 80 ms each time, which is more than a small task itself takes.
And the C library gives every buffer of some megabytes back to the system, which then has to zero its pages anew.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["at_home"]

M_TRIM_THRESHOLD: Final = -1
M_MMAP_THRESHOLD: Final = -3
KEPT_BYTES_MAX: Final = 32 * 1024 * 1024
"""Free memory that stays with the process, and the largest buffer that is taken from it."""


@contextmanager
def at_home() -> Iterator[None]:
    """Around what a worker does for us; the first time, the process is made ready for the next times."""
    if gc.get_freeze_count():
        yield
        return
    _keep_memory()
    try:
        yield
    finally:
        gc.freeze()


def _keep_memory() -> None:
    """Where the C library is not glibc, nothing happens."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, KEPT_BYTES_MAX)
        mallopt(M_TRIM_THRESHOLD, KEPT_BYTES_MAX)
