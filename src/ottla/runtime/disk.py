"""The real disk: files below one root, with a bound on how many of them hold a descriptor.

A node with 10,000 partitions has tens of thousands of files and uses few of them at any moment, so an `OsFile` opens
its descriptor when it needs one and gives it up when others need it more. Which one goes is decided by the clock
algorithm: an operation sets a flag, the hand passes over the flagged ones once. That is nearly LRU, and costs an
operation one assignment instead of a list to reorder.

Files are used by the event loop and by worker threads that sync or commit, so a descriptor must never be closed, and
its number given to another file, while somebody is between reading the number and using it. A lock around every
operation would make a reader wait for a writer, so the two sides announce themselves instead: a user *pins* the file
and then reads the descriptor, the evictor takes the descriptor away and then looks for pins. Whatever the order, at
least one of them sees the other: the evictor puts the descriptor back, or the user finds none and opens one under the
lock.

A descriptor may be given up while its file has unsynced bytes. A later `sync` through a new descriptor covers them, and
Linux hands a write error that nobody has seen to the next one who opens the file.
"""

import errno
import logging
import os
import resource
import sys
import threading
from collections import OrderedDict
from collections.abc import Sequence
from types import TracebackType

from ottla.ports import Bytes, Sendable, Stretch
from ottla.runtime.c_library import c_function

log = logging.getLogger(__name__)

IOV_MAX = os.sysconf("SC_IOV_MAX")
_CLOSED = -1
_OPEN_FILES_DEFAULT = 1_000
_FALLOC_FL_KEEP_SIZE = 1
PIECE_BYTES = 1 << 20
"""What a sync in pieces lets the disk have at a time."""
_WAIT_WRITE_AND_WAIT = 7
"""All three flags of `sync_file_range`."""
_CAN_T_WRITE_BACK = frozenset({errno.ENOSYS, errno.EINVAL, errno.ESPIPE, errno.EPERM, errno.EOPNOTSUPP})
"""Errors that say nothing of the data: not every file system and sandbox knows the call."""


class OsFile:
    """A file of an `OsDisk`. After `close` it may be used again: it opens itself, under the name it was opened with."""

    __slots__ = ("__weakref__", "_descriptor", "_disk", "_is_unsendable", "_pins", "_recently_used", "path")

    def __init__(self, disk: "OsDisk", path: str) -> None:
        self.path = path
        self._disk = disk
        self._descriptor = _CLOSED
        self._pins: list[None] = []
        self._recently_used = True
        self._is_unsendable = False

    def pwritev(self, buffers: Sequence[Bytes], position: int) -> int:
        pins = self._pins
        pins.append(None)
        try:
            descriptor = self._descriptor
            if descriptor < 0:
                descriptor = self._disk.reopen(self)
            self._recently_used = True
            expected = sum(map(len, buffers))
            if len(buffers) > IOV_MAX:
                buffers = (b"".join(buffers),)
            written = os.pwritev(descriptor, buffers, position)
            if written != expected:
                _write_rest(descriptor, buffers, position, written)
            return expected
        finally:
            pins.pop()

    def pread(self, size: int, position: int) -> bytes:
        self._pins.append(None)
        try:
            descriptor = self._descriptor
            if descriptor < 0:
                descriptor = self._disk.reopen(self)
            self._recently_used = True
            return os.pread(descriptor, size, position)
        finally:
            self._pins.pop()

    def stretch(self, size: int, position: int, header: bytes) -> Sendable:
        if self._is_unsendable:
            return self.pread(size, position)
        return FileStretch(self, self.pin(), header, size, position)

    def sync(self) -> None:
        self._pins.append(None)
        try:
            descriptor = self._descriptor
            if descriptor < 0:
                descriptor = self._disk.reopen(self)
            self._recently_used = True
            os.fdatasync(descriptor)
        finally:
            self._pins.pop()

    def sync_in_pieces(self, since: int) -> None:
        with _Pinned(self) as descriptor:
            for position in range(since, os.fstat(descriptor).st_size, PIECE_BYTES):
                if not _write_back(descriptor, position, PIECE_BYTES):
                    break
        self.sync()

    def truncate(self, size: int) -> None:
        with _Pinned(self) as descriptor:
            os.ftruncate(descriptor, size)

    def size(self) -> int:
        with _Pinned(self) as descriptor:
            return os.fstat(descriptor).st_size

    def allocate(self, size: int) -> None:
        with _Pinned(self) as descriptor:
            _reserve(descriptor, size)

    def close(self) -> None:
        self._disk.retire(self)

    def pin(self) -> int:
        """Its descriptor, which stays open until `unpin`, also if the file is closed or removed meanwhile."""
        self._pins.append(None)
        try:
            descriptor = self._descriptor
            if descriptor < 0:
                descriptor = self._disk.reopen(self)
        except BaseException:
            self._pins.pop()
            raise
        self._recently_used = True
        return descriptor

    def unpin(self) -> None:
        self._pins.pop()

    def refused(self, error: OSError) -> None:
        """The system can't send from it."""
        if not self._is_unsendable:
            # What a log keeps of the error must not keep those alive who have pinned the file.
            log.warning("%s is read from now on, and not sent from: %s", self.path, str(error))
            self._is_unsendable = True

    # What the disk needs to evict a file. Only called with the disk's lock held.

    def take_descriptor(self) -> int:
        descriptor, self._descriptor = self._descriptor, _CLOSED
        return descriptor

    def give_descriptor(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def is_pinned(self) -> bool:
        return bool(self._pins)

    def forget_use(self) -> bool:
        """Whether it was used since the last time this was asked."""
        used, self._recently_used = self._recently_used, False
        return used


class _Pinned:
    """The descriptor of a file, kept open until the block ends. For the operations that are not hot."""

    __slots__ = ("_file",)

    def __init__(self, file: OsFile) -> None:
        self._file = file

    def __enter__(self) -> int:
        return self._file.pin()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.unpin()


class FileStretch(Stretch):
    """A stretch of an `OsFile`, of what that is now: as long as the stretch is there, another may take its name."""

    __slots__ = ("_descriptor", "_file", "_position")

    def __init__(self, file: OsFile, descriptor: int, header: bytes, size: int, position: int) -> None:
        """The file is pinned for it."""
        super().__init__(header, size)
        self._file = file
        self._descriptor = descriptor
        self._position = position

    def __del__(self) -> None:
        self._file.unpin()

    def send(self, to: int, most_bytes: int) -> int:
        """As much as that socket takes at once, up to `most_bytes`; how many those were. 0 if none went this way."""
        try:
            sent = os.sendfile(to, self._descriptor, self._position, min(self.size, most_bytes))
            self._move(sent)
        except BlockingIOError:
            return 0
        except ConnectionError:
            raise
        except OSError as error:
            self._file.refused(error)
            return 0
        return sent

    def read(self, size: int) -> bytes:
        """The next of it, instead of sending it. OSError if there is none."""
        data = os.pread(self._descriptor, size, self._position)
        self._move(len(data))
        return data

    def _move(self, done: int) -> None:
        if not done:
            raise OSError(errno.EIO, "the file ends before it should", self._file.path)
        self._position += done
        self.size -= done


class OsDisk:
    """`ports.Disk` on the file system, below `root`, which is made if it is missing."""

    def __init__(self, root: str, *, open_files_max: int | None = None) -> None:
        self.root = os.path.abspath(root)
        self.open_files_max = min(open_files_max or _OPEN_FILES_DEFAULT, _open_files_allowed())
        os.makedirs(self.root, exist_ok=True)
        self._lock = threading.Lock()
        self._open: OrderedDict[OsFile, None] = OrderedDict()
        """Every file with a descriptor, in the order in which the clock's hand passes them."""
        self._retired: list[tuple[OsFile, int]] = []
        """Descriptors of closed files that somebody was still using."""

    @property
    def open_files(self) -> int:
        """How many descriptors are held now."""
        return len(self._open) + len(self._retired)

    def open(self, path: str, *, create: bool = False) -> OsFile:
        file = OsFile(self, path)
        with self._lock:
            self._open_descriptor(file, os.O_CREAT if create else 0)
        return file

    def exists(self, path: str) -> bool:
        return os.path.exists(self._at(path))

    def list(self, path: str) -> Sequence[str]:
        try:
            return sorted(os.listdir(self._at(path)))
        except FileNotFoundError:
            return []

    def make_directory(self, path: str) -> None:
        os.makedirs(self._at(path), exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        os.rename(self._at(source), self._at(target))

    def remove(self, path: str) -> None:
        try:
            os.unlink(self._at(path))
        except FileNotFoundError:
            return

    def remove_tree(self, path: str) -> None:
        try:
            _remove_tree(self._at(path))
        except FileNotFoundError:
            return

    def sync_directory(self, path: str) -> None:
        descriptor = os.open(self._at(path), os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def sync(self) -> None:
        """Linux tells of failed writes here since 5.8; before that, only a sync of the file itself did."""
        descriptor = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            c_function("syncfs", "c_int")(descriptor)
        except OSError as error:
            raise OSError(error.errno, error.strerror, self.root) from None
        finally:
            os.close(descriptor)

    def size(self, path: str) -> int:
        return os.stat(self._at(path)).st_size

    def free_bytes(self) -> int:
        status = os.statvfs(self.root)
        return status.f_bavail * status.f_frsize

    def close(self) -> None:
        """Give all descriptors back. Files may still be used: they open themselves again."""
        for file in list(self._open):
            self.retire(file)

    # What an OsFile asks of its disk.

    def reopen(self, file: OsFile) -> int:
        """The descriptor of a file that had none when it looked. The caller has pinned it, so it stays."""
        with self._lock:
            if file._descriptor >= 0:  # the evictor saw the pin and put it back, or another thread was first
                return file._descriptor
            return self._open_descriptor(file, 0)

    def retire(self, file: OsFile) -> None:
        with self._lock:
            descriptor = file.take_descriptor()
            if descriptor >= 0:
                del self._open[file]
                self._retired.append((file, descriptor))
            self._close_retired()

    def _open_descriptor(self, file: OsFile, flags: int) -> int:
        self._close_retired()
        while self.open_files >= self.open_files_max and self._evict_one():
            pass
        descriptor = os.open(self._at(file.path), os.O_RDWR | flags, 0o644)
        self._open[file] = None
        file.give_descriptor(descriptor)
        return descriptor

    def _evict_one(self) -> bool:
        """Close the first file that was not used since the hand last passed; False if all are in use this moment."""
        for _ in range(2 * len(self._open)):
            file = next(iter(self._open))
            self._open.move_to_end(file)
            if file.forget_use():
                continue
            descriptor = file.take_descriptor()
            if not file.is_pinned():
                del self._open[file]
                os.close(descriptor)
                return True
            file.give_descriptor(descriptor)
        return False

    def _close_retired(self) -> None:
        for _ in range(len(self._retired)):
            file, descriptor = self._retired.pop()
            if file.is_pinned():
                self._retired.insert(0, (file, descriptor))
            else:
                os.close(descriptor)

    def _at(self, path: str) -> str:
        return f"{self.root}/{path}"


def allow_open_files() -> None:
    """Let this process have as many files open as the system lets it: a node has many, and few are let by default."""
    soft_limit, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft_limit != hard_limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))


def _open_files_allowed() -> int:
    """Three quarters of what the process may have: the rest is for connections."""
    soft_limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft_limit == resource.RLIM_INFINITY else max(soft_limit * 3 // 4, 16)


def _write_rest(descriptor: int, buffers: Sequence[Bytes], position: int, written: int) -> None:
    """After a call that wrote less than it was given. A disk that is full says so on the next one.

    Python itself goes on after a signal.
    """
    data = memoryview(b"".join(buffers))
    while written < len(data):
        written += os.pwrite(descriptor, data[written:], position + written)


def _reserve(descriptor: int, size: int) -> None:
    """fallocate that keeps the size, which Python's own posix_fallocate can't."""
    fallocate = c_function("fallocate", "c_int", "c_int", "c_int64", "c_int64")
    fallocate(descriptor, _FALLOC_FL_KEEP_SIZE, 0, size)


def _write_back(descriptor: int, position: int, size: int) -> bool:
    """Write what the page cache has of this stretch, and wait for it; False if the system can't. It is not durable by
    that: the disk has caches of its own. OSError as of a sync, which will not tell of the same error again.
    """
    try:
        _sync_file_range(descriptor, position, size)
    except OSError as error:
        if error.errno in _CAN_T_WRITE_BACK:
            return False
        raise
    return True


def _sync_file_range(descriptor: int, position: int, size: int) -> None:
    sync_file_range = c_function("sync_file_range", "c_int", "c_int64", "c_int64", "c_uint")
    sync_file_range(descriptor, position, size, _WAIT_WRITE_AND_WAIT)


def _remove_tree(path: str) -> None:
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                _remove_tree(entry.path)
            else:
                os.unlink(entry.path)
    os.rmdir(path)
