"""What the C library and the system can do and Python has no functions for.

ctypes is loaded by the first call: it is not cheap, and many processes never need it. Whoever calls says what each
argument is; numbers alone would be cut to 32 bits. A function that there is none of here fails as one that the system
does not know, with ENOSYS.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any


@cache
def c_function(name: str, *types: str) -> Callable[..., int]:
    """One that returns -1 when it fails, which is raised as OSError. `types` are those of its arguments in ctypes."""
    import ctypes

    found = getattr(ctypes.CDLL(None, use_errno=True), name, None)
    if found is None:
        return _unknown
    function: Any = found
    function.argtypes = [getattr(ctypes, each) for each in types]

    def call(*arguments: Any) -> int:
        result: int = function(*arguments)
        if result == -1:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))
        return result

    return call


def system_call(numbers: Mapping[str, int], *arguments: int) -> int:
    """One of Linux that the C library has no function for, by its number on each kind of machine. Raises OSError."""
    number = numbers.get(os.uname().machine)
    if number is None or sys.platform != "linux":
        return _unknown()
    return c_function("syscall", *["c_long"] * (1 + len(arguments)))(number, *arguments)


def address(buffer: bytearray) -> int:
    """Of its bytes, for a call that reads or fills them. The buffer must not grow, nor go, before the call is over."""
    import ctypes

    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))


def _unknown(*_: Any) -> int:
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
