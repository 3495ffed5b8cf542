"""What a disk may hold after the power is gone: the model behind `CrashingDisk`.

A file is the bytes of its last sync and the list of what was done to it since. A directory is the names of its last
sync; what was done to names since is one list for the whole disk, in order. At a crash the model picks, from all that
is not synced, what had reached the medium:

- The page cache writes sectors back in any order and at any time, so every sector may be as it was after any one of the
  unsynced writes, on its own. So may the size of the file.
- A sector may also tear in the middle of a write (`Keep.PREFIX`).
- A name that was made, renamed or removed may be kept or lost, except that nothing survives what it was built on: a
  file renamed to a name is there only if it had been made, under whichever name.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto
from random import Random
from typing import NamedTuple


class Keep(Enum):
    """Which part of the unsynced operations had reached the medium."""

    NOTHING = auto()
    EVERYTHING = auto()
    PREFIX = auto()
    """The first ones; the last of them torn at any byte."""
    ANY = auto()
    """Any of them: each sector, each size and each name on its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survival:
    """What is kept of unsynced bytes and of unsynced names, and how large a sector is written as one."""

    data: Keep
    names: Keep
    sector_bytes: int = 512
    prefix_bytes: int | None = None
    """With `Keep.PREFIX`: how many unsynced bytes of each file are kept; any number if None."""

    @classmethod
    def random(cls, random: Random, *, sector_bytes: int = 512) -> "Survival":
        kinds = list(Keep)
        return cls(data=random.choice(kinds), names=random.choice(kinds), sector_bytes=sector_bytes)


NOTHING_UNSYNCED = Survival(data=Keep.NOTHING, names=Keep.NOTHING)
EVERYTHING_WRITTEN = Survival(data=Keep.EVERYTHING, names=Keep.EVERYTHING)


class Write(NamedTuple):
    position: int
    data: bytes

    def apply(self, image: bytearray) -> None:
        if len(image) < self.position:
            image.extend(bytes(self.position - len(image)))
        image[self.position : self.position + len(self.data)] = self.data


class Resize(NamedTuple):
    size: int

    def apply(self, image: bytearray) -> None:
        if len(image) > self.size:
            del image[self.size :]
        else:
            image.extend(bytes(self.size - len(image)))


class FileNode:
    """One file: what is on the medium, what the page cache shows, and the operations between the two."""

    __slots__ = ("current", "durable", "unsynced")

    def __init__(self, content: bytes = b"") -> None:
        self.durable = content
        self.current = bytearray(content)
        self.unsynced: list[Write | Resize] = []

    def do(self, operation: Write | Resize) -> None:
        self.unsynced.append(operation)
        operation.apply(self.current)

    def sync(self) -> None:
        if self.unsynced:
            self.durable = self._replayed(self.unsynced)
            self.unsynced.clear()

    def fail_sync(self) -> None:
        """As Linux does after a failed write-back: the pages count as clean, so that no later sync writes them."""
        self.unsynced.clear()

    def after_crash(self, survival: Survival, random: Random) -> bytes:
        if not self.unsynced or survival.data is Keep.NOTHING:
            return self.durable
        if survival.data is Keep.EVERYTHING:
            return self._replayed(self.unsynced)
        if survival.data is Keep.PREFIX:
            return self._replayed(_prefix(self.unsynced, survival.prefix_bytes, random))
        return self._mixed_sectors(survival.sector_bytes, random)

    def _replayed(self, operations: Iterable[Write | Resize]) -> bytes:
        image = bytearray(self.durable)
        for operation in operations:
            operation.apply(image)
        return bytes(image)

    def _mixed_sectors(self, sector_bytes: int, random: Random) -> bytes:
        """Each sector is taken from the file as it was after some operation, and so is the size."""
        versions = len(self.unsynced)
        size_version = random.randint(0, versions)
        size = 0
        wanted: dict[int, list[int]] = {}
        for sector in self._touched_sectors(sector_bytes):
            wanted.setdefault(random.randint(0, versions), []).append(sector)
        image, result = bytearray(self.durable), bytearray(self.durable)
        for version in range(versions + 1):
            if version:
                self.unsynced[version - 1].apply(image)
            if version == size_version:
                size = len(image)
            for sector in wanted.get(version, ()):
                Write(sector * sector_bytes, bytes(image[sector * sector_bytes : (sector + 1) * sector_bytes])).apply(
                    result
                )
        Resize(size).apply(result)
        return bytes(result)

    def _touched_sectors(self, sector_bytes: int) -> list[int]:
        touched: set[int] = set()
        for operation in self.unsynced:
            if isinstance(operation, Write) and operation.data:
                last = operation.position + len(operation.data) - 1
                touched.update(range(operation.position // sector_bytes, last // sector_bytes + 1))
        return sorted(touched)


def _prefix(operations: list[Write | Resize], keep_bytes: int | None, random: Random) -> list[Write | Resize]:
    kept: list[Write | Resize] = []
    if keep_bytes is None:
        keep_bytes = random.randint(0, sum(len(op.data) for op in operations if isinstance(op, Write)))
    for operation in operations:
        if isinstance(operation, Write):
            if len(operation.data) > keep_bytes:
                kept.append(Write(operation.position, operation.data[:keep_bytes]))
                break
            keep_bytes -= len(operation.data)
        kept.append(operation)
    return kept


class DirectoryNode:
    """One directory: the names in it now, and those that were there at its last sync."""

    __slots__ = ("durable", "entries")

    def __init__(self) -> None:
        self.entries: dict[str, FileNode | DirectoryNode] = {}
        self.durable: dict[str, FileNode | DirectoryNode] = {}


Node = FileNode | DirectoryNode


class NameChange(NamedTuple):
    """Names that change together: one for making and removing, two for renaming. `node` is what they are names of."""

    node: Node
    changes: tuple[tuple[DirectoryNode, str, Node | None], ...]

    def apply_to_entries(self) -> None:
        for directory, name, node in self.changes:
            _set(directory.entries, name, node)

    def apply_to_durable(self) -> None:
        for directory, name, node in self.changes:
            _set(directory.durable, name, node)

    def touches(self, directory: DirectoryNode) -> bool:
        return any(changed is directory for changed, _, _ in self.changes)

    def keys(self) -> set[object]:
        """What it has in common with the changes that it is built on, and with those that are built on it."""
        keys: set[object] = {id(self.node)}
        keys.update((id(directory), name) for directory, name, _ in self.changes)
        return keys


def _set(names: dict[str, Node], name: str, node: Node | None) -> None:
    if node is None:
        names.pop(name, None)
    else:
        names[name] = node


def sync_names(changes: list[NameChange], directory: DirectoryNode) -> list[NameChange]:
    """Make the names in `directory` durable, with all that they are built on; returns the changes that are left."""
    left: list[NameChange] = []
    synced: list[NameChange] = []
    needed: set[object] = set()
    for change in reversed(changes):
        keys = change.keys()
        if change.touches(directory) or keys & needed:
            needed |= keys
            synced.append(change)
        else:
            left.append(change)
    for change in reversed(synced):
        change.apply_to_durable()
    return left[::-1]


def surviving_names(changes: list[NameChange], keep: Keep, random: Random) -> list[NameChange]:
    """The changes that had reached the medium, in order; none of them without those that it was built on."""
    if keep is Keep.NOTHING:
        return []
    if keep is Keep.EVERYTHING:
        return changes
    if keep is Keep.PREFIX:
        return changes[: random.randint(0, len(changes))]
    kept: list[NameChange] = []
    lost: set[object] = set()
    for change in changes:
        keys = change.keys()
        if keys & lost or random.random() < 0.5:
            lost |= keys
        else:
            kept.append(change)
    return kept


def tree_after_crash(
    root: DirectoryNode, changes: list[NameChange], survival: Survival, random: Random
) -> DirectoryNode:
    """A copy of the tree as it may be found after a crash: everything in it is durable."""
    names: dict[int, dict[str, Node]] = {}
    for change in surviving_names(changes, survival.names, random):
        for directory, name, node in change.changes:
            _set(names.setdefault(id(directory), dict(directory.durable)), name, node)
    return _copy(root, names, survival, random)


def _copy(
    directory: DirectoryNode, names: dict[int, dict[str, Node]], survival: Survival, random: Random
) -> DirectoryNode:
    copy = DirectoryNode()
    for name, node in names.get(id(directory), directory.durable).items():
        if isinstance(node, FileNode):
            copy.durable[name] = FileNode(node.after_crash(survival, random))
        else:
            copy.durable[name] = _copy(node, names, survival, random)
    copy.entries = dict(copy.durable)
    return copy
