"""How the process asks the system for memory.

A fetch reads into a new buffer of up to a megabyte and lets go of it when it is sent. glibc gives such a buffer back
to the system at once and asks for it again a moment later, and each time the kernel must map and zero its pages: 318
µs to read a cached megabyte instead of 54 (docs/decisions/0006). Told to keep some free memory at hand, it does not.
"""

import gc
from contextlib import suppress

from ottla.runtime.c_library import c_function

M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3

KEPT_BYTES_MAX = 32 * 1024 * 1024
"""Free memory at the top of the heap that is not given back, and the largest buffer that comes from the heap."""


def keep_buffers_at_hand() -> None:
    """Where the C library is not glibc, nothing happens."""
    with suppress(OSError):
        mallopt = c_function("mallopt", "c_int", "c_int")
        mallopt(M_MMAP_THRESHOLD, KEPT_BYTES_MAX)
        mallopt(M_TRIM_THRESHOLD, KEPT_BYTES_MAX)


def quiet_collector() -> None:
    """What start-up made lives as long as the process, so the collector need not look at it, now or ever.

    A quarter of a megabyte of it is garbage. To find that takes longer than to answer the first clients.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    gc.enable()
