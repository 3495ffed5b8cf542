"""A sync that the kernel does while this process goes on with its work: Linux's asynchronous I/O, through ctypes.

There is nothing of the kind in Python, and a thread would need the interpreter to begin the sync and again to end it,
which is what the work that goes on holds.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys

_SETUP, _DESTROY, _GET_EVENTS, _SUBMIT = range(4)
_SYSTEM_CALLS = {"x86_64": (206, 207, 208, 209), "aarch64": (0, 1, 4, 2)}
_SYNC_DATA = 3
_REQUEST = struct.Struct("<QIIHhIQQqQII")
"""Data, key, flags, operation, priority, descriptor, buffer, size, offset, reserved, more flags, descriptor to tell."""
_EVENT_BYTES = 32
_RESULT_AT = 16
_unpack_result = struct.Struct("<q").unpack_from


class KernelSync:
    """One sync at a time, begun and ended by the same thread. Where `is_possible` is false, there is none to begin."""

    def __init__(self) -> None:
        self._numbers = _SYSTEM_CALLS.get(platform.machine()) if sys.platform == "linux" else None
        self._context = ctypes.c_ulong(0)
        self._busy = False
        self.is_possible = False
        if self._numbers is None:
            return
        self._call = ctypes.CDLL(None, use_errno=True).syscall
        self._one = ctypes.c_long(1)
        self._request = ctypes.create_string_buffer(_REQUEST.size)
        self._requests = (ctypes.c_void_p * 1)(ctypes.addressof(self._request))
        self._event = ctypes.create_string_buffer(_EVENT_BYTES)
        self._submit = ctypes.c_long(self._numbers[_SUBMIT])
        self._get_events = ctypes.c_long(self._numbers[_GET_EVENTS])
        made = self._call(ctypes.c_long(self._numbers[_SETUP]), self._one, ctypes.byref(self._context))
        self.is_possible = made == 0  # a kernel may lack it, and a system has so many for all its processes

    def begin(self, descriptor: int) -> bool:
        """Whether the kernel has taken it; then `end` must follow."""
        if not self.is_possible or self._busy:
            return False
        _REQUEST.pack_into(self._request, 0, 0, 0, 0, _SYNC_DATA, 0, descriptor, 0, 0, 0, 0, 0, 0)
        self._busy = bool(self._call(self._submit, self._context, self._one, self._requests) == 1)
        return self._busy

    def end(self) -> None:
        """Wait for it. Raises the OSError of the sync."""
        self._busy = False
        while self._call(self._get_events, self._context, self._one, self._one, self._event, None) != 1:
            code = ctypes.get_errno()
            if code != errno.EINTR:
                raise OSError(code, os.strerror(code))
        (result,) = _unpack_result(self._event, _RESULT_AT)
        if result < 0:
            raise OSError(-result, os.strerror(-result))

    def close(self) -> None:
        """Waits for what is under way."""
        if self.is_possible and self._numbers is not None:
            self.is_possible = False
            self._call(ctypes.c_long(self._numbers[_DESTROY]), self._context)
