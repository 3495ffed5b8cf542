"""Memory that this machine really has, kept for whoever is measured.

In a virtual machine the first touch of a page of memory costs ten times a later one: the host has to find it. It would
be charged to the broker that fills the page cache, and the more it writes, the more. Touching memory before a run does
not help for long where a guest tells its host which pages are free (free page reporting): two seconds after they were
freed the host has taken them back, and they are as cold as before. So memory is touched once and kept, and given
back to the system at the pace at which a run takes it: what is handed out next is what was given back last.

On an AMD EPYC a megabyte written to a file costs 0.21 ms of CPU if its memory was freed within the last second,
and 2.1 ms three seconds later.
"""

import mmap
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

_CHUNK = 8 << 20
_TOUCH = b"\1" * _CHUNK
_MARGIN_BYTES = 256 << 20
"""What a run finds at hand from its start. The quickest takes a tenth of it from one look to the next."""
_LOOK_S = 0.01
_MEMORY_SHARE_MAX = 0.25
"""Of what the machine has left: brokers and clients need some, and so does what they write."""


def free_bytes() -> int:
    """Memory that nobody uses, for files neither."""
    return _told("MemFree")


def _told(name: str) -> int:
    """By the kernel, in bytes. Nothing where it tells nothing."""
    with suppress(OSError), open("/proc/meminfo") as lines:
        for line in lines:
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    return 0


class WarmMemory:
    """`fill` it before a run, let the run be within `lent`, and fill it again while what the run has freed is warm."""

    def __init__(self, gigabytes: float, *, free: Callable[[], int] = free_bytes) -> None:
        most = _told("MemAvailable") * _MEMORY_SHARE_MAX
        self._size = int(min(gigabytes * 1e9, most)) // _CHUNK * _CHUNK
        self._memory = mmap.mmap(-1, self._size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) if self._size else None
        self._free = free
        self.held_bytes = 0

    def fill(self) -> None:
        """Touch what is not held."""
        if self._memory is None:
            return
        for at in range(self.held_bytes, self._size, _CHUNK):
            self._memory[at : at + _CHUNK] = _TOUCH
        self.held_bytes = self._size

    def give(self, size_bytes: int) -> None:
        """So much back to the system, as far as it is held."""
        given = min(self.held_bytes, -(-size_bytes // _CHUNK) * _CHUNK)
        if self._memory is not None and given > 0:
            self._memory.madvise(mmap.MADV_DONTNEED, self.held_bytes - given, given)
            self.held_bytes -= given

    @contextmanager
    def lent(self) -> Iterator[None]:
        """While this lasts, the machine has as much free memory as at its beginning, and a little more."""
        enough = self._free() + _MARGIN_BYTES
        done = threading.Event()

        def keep_up() -> None:
            while not done.is_set():
                self.give(enough - self._free())
                done.wait(_LOOK_S)

        keeper = threading.Thread(target=keep_up, name="warm-memory")
        if self.held_bytes:
            keeper.start()
        try:
            yield
        finally:
            done.set()
            if keeper.ident is not None:
                keeper.join()

    def close(self) -> None:
        if self._memory is not None:
            self._memory.close()
        self._memory, self._size, self.held_bytes = None, 0, 0
