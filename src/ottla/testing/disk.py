"""A disk in memory that forgets what was not synced, tears writes, and fails when told to.

Bytes are volatile until `File.sync`, names until `sync_directory`. `crash` gives a new disk that holds what may have
survived, chosen at random from a seed (`disk_model` says what may), and leaves the old one as it is: a test can crash
the same disk a thousand ways, or at every single operation by means of `before_operation`.
"""

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random

from ottla.ports import Bytes
from ottla.testing.disk_model import (
    DirectoryNode,
    FileNode,
    NameChange,
    Node,
    Resize,
    Survival,
    Write,
    sync_names,
    tree_after_crash,
)


class Operation(StrEnum):
    """What can be counted, interrupted and made to fail: everything that changes the disk or makes it durable."""

    CREATE = "create"
    MAKE_DIRECTORY = "make_directory"
    REMOVE = "remove"
    RENAME = "rename"
    SYNC = "sync"
    SYNC_DIRECTORY = "sync_directory"
    TRUNCATE = "truncate"
    WRITE = "write"


@dataclass(slots=True, kw_only=True)
class Fault:
    """Makes matching operations fail with `errno`: after `skip` that work, `times` of them (all if None)."""

    operation: Operation
    path_contains: str = ""
    errno: int = errno.EIO
    skip: int = 0
    times: int | None = None

    def strikes(self, operation: Operation, path: str) -> bool:
        if operation is not self.operation or self.path_contains not in path or self.times == 0:
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        if self.times is not None:
            self.times -= 1
        return True


@dataclass(slots=True)
class Counters:
    """What a test may want to know of what the disk was asked to do."""

    syncs: int = 0
    directory_syncs: int = 0
    writes: int = 0
    bytes_written: int = 0
    bytes_read: int = 0
    reads: int = 0
    synced_paths: list[str] = field(default_factory=list)
    synced_in_pieces: list[tuple[str, int]] = field(default_factory=list)
    """Which files were, and from where on."""


class CrashingFile:
    """A file of a `CrashingDisk`. It goes on showing the same file after a rename or removal, as a descriptor does."""

    __slots__ = ("_disk", "_node", "path")

    def __init__(self, disk: "CrashingDisk", path: str, node: FileNode) -> None:
        self.path = path
        self._disk = disk
        self._node = node

    def pwritev(self, buffers: Sequence[Bytes], position: int) -> int:
        data = b"".join(buffers)
        self._disk.write(self.path, self._node, Write(position, data))
        return len(data)

    def pread(self, size: int, position: int) -> bytes:
        data = bytes(self._node.current[position : position + size])
        self._disk.counters.reads += 1
        self._disk.counters.bytes_read += len(data)
        return data

    def stretch(self, size: int, position: int, header: bytes) -> bytes:
        return self.pread(size, position)

    def sync(self) -> None:
        self._disk.sync_file(self.path, self._node)

    def sync_in_pieces(self, since: int) -> None:
        self._disk.counters.synced_in_pieces.append((self.path, since))
        self.sync()

    def truncate(self, size: int) -> None:
        self._disk.step(Operation.TRUNCATE, self.path)
        self._node.do(Resize(size))

    def size(self) -> int:
        return len(self._node.current)

    def allocate(self, size: int) -> None:
        """Nothing to reserve: room is counted when bytes are written."""

    def close(self) -> None:
        """Nothing to give back."""


class CrashingDisk:
    """`ports.Disk` in memory."""

    def __init__(self, *, seed: int = 0, capacity_bytes: int | None = None, sync_lies: bool = False) -> None:
        self.counters = Counters()
        self.capacity_bytes = capacity_bytes
        self.sync_lies = sync_lies
        """A sync that returns without having done anything: what a test uses to see that its checks can fail."""
        self.before_operation: Callable[[Operation, str], None] | None = None
        """Called before every operation that changes the disk: to crash it there, or to let a clock run."""
        self.faults: list[Fault] = []
        self._random = Random(seed)
        self._root = DirectoryNode()
        self._unsynced_names: list[NameChange] = []

    # Faults.

    def crash(self, survival: Survival | None = None) -> "CrashingDisk":
        """What may be found at the next start; any survival that the model allows if none is given."""
        survival = survival or Survival.random(self._random)
        after = CrashingDisk(seed=self._random.getrandbits(32), capacity_bytes=self.capacity_bytes)
        after._root = tree_after_crash(self._root, self._unsynced_names, survival, self._random)
        return after

    def flip_bit(self, path: str, bit: int) -> None:
        """Rot: the medium gives back another bit than the one that was written."""
        node = self._file(path)
        node.sync()
        node.current[bit // 8] ^= 1 << (bit % 8)
        node.durable = bytes(node.current)

    def step(self, operation: Operation, path: str) -> None:
        """Every operation begins here: hooks see it, and faults may end it."""
        if self.before_operation is not None:
            self.before_operation(operation, path)
        for fault in self.faults:
            if fault.strikes(operation, path):
                raise OSError(fault.errno, os.strerror(fault.errno), path)

    # What a CrashingFile asks of its disk.

    def write(self, path: str, node: FileNode, write: Write) -> None:
        self.step(Operation.WRITE, path)
        growth = write.position + len(write.data) - len(node.current)
        room = self.free_bytes()
        if growth > room:
            fits = max(len(write.data) - (growth - room), 0)
            node.do(Write(write.position, write.data[:fits]))
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        node.do(write)
        self.counters.writes += 1
        self.counters.bytes_written += len(write.data)

    def sync_file(self, path: str, node: FileNode) -> None:
        try:
            self.step(Operation.SYNC, path)
        except OSError:
            node.fail_sync()
            raise
        self.counters.syncs += 1
        self.counters.synced_paths.append(path)
        if not self.sync_lies:
            node.sync()

    # ports.Disk

    def open(self, path: str, *, create: bool = False) -> CrashingFile:
        directory, name = self._parent(path)
        node = directory.entries.get(name)
        if node is None and create:
            self.step(Operation.CREATE, path)
            node = FileNode()
            self._change(NameChange(node, ((directory, name, node),)))
        return CrashingFile(self, path, self._file(path))

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def list(self, path: str) -> Sequence[str]:
        node = self._find(path)
        return sorted(node.entries) if isinstance(node, DirectoryNode) else []

    def make_directory(self, path: str) -> None:
        directory = self._root
        for part in _parts(path):
            node = directory.entries.get(part)
            if node is None:
                self.step(Operation.MAKE_DIRECTORY, path)
                node = DirectoryNode()
                self._change(NameChange(node, ((directory, part, node),)))
            if not isinstance(node, DirectoryNode):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
            directory = node

    def rename(self, source: str, target: str) -> None:
        node = self._find(source)
        if node is None:
            raise _missing(source)
        self.step(Operation.RENAME, source)
        from_directory, from_name = self._parent(source)
        to_directory, to_name = self._parent(target)
        self._change(NameChange(node, ((from_directory, from_name, None), (to_directory, to_name, node))))

    def remove(self, path: str) -> None:
        node = self._find(path)
        if node is not None:
            self.step(Operation.REMOVE, path)
            directory, name = self._parent(path)
            self._change(NameChange(node, ((directory, name, None),)))

    def remove_tree(self, path: str) -> None:
        for name in self.list(path):
            self.remove_tree(f"{path}/{name}")
        self.remove(path)

    def sync_directory(self, path: str) -> None:
        node = self._find(path)
        if not isinstance(node, DirectoryNode):
            raise _missing(path)
        self.step(Operation.SYNC_DIRECTORY, path)
        self.counters.directory_syncs += 1
        if not self.sync_lies:
            self._unsynced_names = sync_names(self._unsynced_names, node)

    def sync(self) -> None:
        for path, node in _files(self._root, ""):
            self.sync_file(path, node)
        self.step(Operation.SYNC_DIRECTORY, "")
        self.counters.directory_syncs += 1
        if not self.sync_lies:
            for change in self._unsynced_names:
                change.apply_to_durable()
            self._unsynced_names = []

    def size(self, path: str) -> int:
        return len(self._file(path).current)

    def free_bytes(self) -> int:
        if self.capacity_bytes is None:
            return 1 << 62
        return max(self.capacity_bytes - _used(self._root), 0)

    # The tree.

    def _change(self, change: NameChange) -> None:
        change.apply_to_entries()
        self._unsynced_names.append(change)

    def _find(self, path: str) -> Node | None:
        node: Node | None = self._root
        for part in _parts(path):
            if not isinstance(node, DirectoryNode):
                return None
            node = node.entries.get(part)
        return node

    def _file(self, path: str) -> FileNode:
        node = self._find(path)
        if node is None:
            raise _missing(path)
        if not isinstance(node, FileNode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return node

    def _parent(self, path: str) -> tuple[DirectoryNode, str]:
        parent, _, name = path.rpartition("/")
        node = self._find(parent)
        if not isinstance(node, DirectoryNode):
            raise _missing(path)
        return node, name


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]


def _missing(path: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


def _files(directory: DirectoryNode, prefix: str) -> Iterator[tuple[str, FileNode]]:
    for name, node in directory.entries.items():
        if isinstance(node, FileNode):
            yield prefix + name, node
        else:
            yield from _files(node, f"{prefix}{name}/")


def _used(directory: DirectoryNode) -> int:
    return sum(len(node.current) if isinstance(node, FileNode) else _used(node) for node in directory.entries.values())
