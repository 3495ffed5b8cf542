"""Windows on files: pieces of them in the address space, so that what is sent is copied once and not twice.

A window is mapped when something in it is first read, and stays until others were used more lately: what one reader
was sent costs the next one no page fault. Windows overlap, so that a read of up to `OVERLAP_BYTES` lies in one of them
wherever it begins. Only what is in the file for good is looked at: a window ends where the file does, or before.

Nobody may look at a page but the kernel: where a page can't be read from the disk, a `send` fails, but a look at it
ends the process. Whoever sends tells with `stop` when that happened; from then on files are read, and the read that
fails says what is wrong.
"""

import logging
import mmap
import threading
from collections import OrderedDict

log = logging.getLogger(__name__)

WINDOW_BYTES = 4 << 20
OVERLAP_BYTES = 1 << 20
MAPPED_BYTES = WINDOW_BYTES + OVERLAP_BYTES


class Windows:
    """At most so many as `bytes_max` has room for. Any thread."""

    def __init__(self, bytes_max: int) -> None:
        self._count_max = bytes_max // MAPPED_BYTES
        self._lock = threading.Lock()
        self._views: OrderedDict[tuple[object, int], memoryview] = OrderedDict()
        """By the file and the number of the window in it, those that were used last at the end."""

    @property
    def is_open(self) -> bool:
        return self._count_max > 0

    @property
    def mapped_bytes(self) -> int:
        return len(self._views) * MAPPED_BYTES

    def find(self, file: object, number: int) -> memoryview | None:
        with self._lock:
            view = self._views.get((file, number))
            if view is not None:
                self._views.move_to_end((file, number))
            return view

    def open(self, file: object, number: int, descriptor: int) -> memoryview:
        """OSError or ValueError if it can't be mapped."""
        mapped = mmap.mmap(descriptor, MAPPED_BYTES, mmap.MAP_SHARED, mmap.PROT_READ, offset=number * WINDOW_BYTES)
        mapped.madvise(mmap.MADV_SEQUENTIAL)
        view = memoryview(mapped)
        with self._lock:
            self._views[file, number] = view
            if len(self._views) > self._count_max:
                self._views.popitem(last=False)  # unmapped as soon as nothing of it is being sent
        return view

    def forget(self, file: object) -> None:
        """The file is closed, cut or removed: as long as it is mapped, the disk keeps its room."""
        if self._views:
            with self._lock:
                for key in [key for key in self._views if key[0] is file]:
                    del self._views[key]

    def stop(self) -> None:
        if self.is_open:
            log.warning("a page of a file could not be sent: files are read from now on")
            self._count_max = 0
            with self._lock:
                self._views.clear()
