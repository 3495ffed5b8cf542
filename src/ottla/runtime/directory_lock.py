"""One process per data directory: two nodes that write the same logs would destroy them.

The lock is `flock` on the file `.lock`, which the kernel releases however the process ends. The file says who holds it
and where that node answers, so that a second process can name the first in its error, or join it as a client.
"""

import fcntl
import os
import weakref
from functools import partial
from types import TracebackType
from typing import Self

from ottla.errors import DirectoryLockedError
from ottla.values import value

LOCK_FILE = ".lock"
_OWNER_BYTES_MAX = 1_024


@value
class LockOwner:
    """Who holds the lock: its process id, and `host:port` once it answers there (empty before)."""

    pid: int
    address: str


class DirectoryLock:
    """Held from the moment it is made until `release` or the end of the process. Forked children don't hold it."""

    def __init__(self, directory: str) -> None:
        os.makedirs(directory, exist_ok=True)
        self._descriptor = os.open(_lock_path(directory), os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._descriptor)
            raise DirectoryLockedError(_locked_sentence(directory)) from error
        self.publish("")
        os.register_at_fork(after_in_child=partial(_drop_in_child, weakref.ref(self)))

    def publish(self, address: str) -> None:
        """Tell others where the node answers."""
        text = f"{os.getpid()} {address}\n".encode()
        os.pwrite(self._descriptor, text, 0)
        os.ftruncate(self._descriptor, len(text))

    def release(self) -> None:
        """The file stays, empty: removing it would let a third process lock a new one while a second waits on this."""
        if self._descriptor >= 0:
            os.ftruncate(self._descriptor, 0)
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            self.drop()

    def drop(self) -> None:
        """Close the descriptor and no more: the lock is free once every process that inherited it has done so."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()


def lock_owner(directory: str) -> LockOwner | None:
    """Who wrote its name into the lock file of `directory`. To be asked after locking it has failed: a process that was
    killed leaves its name behind.
    """
    try:
        descriptor = os.open(_lock_path(directory), os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        return _parse_owner(os.pread(descriptor, _OWNER_BYTES_MAX, 0))
    finally:
        os.close(descriptor)


def _parse_owner(text: bytes) -> LockOwner | None:
    pid, _, address = text.decode(errors="replace").strip().partition(" ")
    return LockOwner(pid=int(pid), address=address) if pid.isdigit() else None


def _locked_sentence(directory: str) -> str:
    owner = lock_owner(directory)
    who = "another process" if owner is None else f"process {owner.pid}"
    where = f", which answers on {owner.address}" if owner is not None and owner.address else ""
    return f"The data directory {directory} is in use by {who}{where}. Stop it, or choose another directory."


def _lock_path(directory: str) -> str:
    return os.path.join(directory, LOCK_FILE)


def _drop_in_child(reference: "weakref.ref[DirectoryLock]") -> None:
    lock = reference()
    if lock is not None:
        lock.drop()
