"""All that the cores know of the outside: a clock, randomness, a disk and a network.

The runtime gives them the real ones, the simulator (`ottla.testing`) gives them its own. Whatever is not in here can't
be reached from a core, which is what lets a test own time and crash a disk at any byte.
"""

from collections.abc import Sequence
from typing import Protocol

Bytes = bytes | bytearray | memoryview
"""What may be written: anything with the bytes in one piece."""


class Stretch:
    """Bytes that stay in their file until a socket takes them from there. Only the first few are known here."""

    __slots__ = ("header", "size")

    def __init__(self, header: bytes, size: int) -> None:
        self.header = header
        """The header of the record batch that they begin with."""
        self.size = size
        """What of it has not been sent."""

    def __len__(self) -> int:
        return self.size


Sendable = Bytes | Stretch
"""What an answer may hold: to be sent, and not to be looked at but for the header of its first record batch."""


def header_of(records: Sendable) -> Bytes:
    """Something that begins with the header of their first batch."""
    return records.header if isinstance(records, Stretch) else records


class Clock(Protocol):
    """Two times: the calendar's, which may jump, and one that only goes forward."""

    def now_ms(self) -> int:
        """Milliseconds since 1970, for timestamps that people and clients see."""

    def monotonic_ms(self) -> int:
        """Milliseconds since some moment, for time-outs and intervals."""


class Random(Protocol):
    """Randomness that a seed can repeat."""

    def randint(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`, both included."""

    def randbytes(self, count: int) -> bytes:
        """`count` random bytes, for ids."""


class File(Protocol):
    """An open file. It may be closed and opened again behind the scenes to bound the number of descriptors."""

    @property
    def path(self) -> str: ...

    def pwritev(self, buffers: Sequence[Bytes], position: int) -> int:
        """Write all of `buffers`, one after the other, at `position`; returns the bytes written (always all of them).

        Raises OSError where the disk refuses; what is on it then is unknown.
        """

    def pread(self, size: int, position: int) -> bytes:
        """At most `size` bytes at `position`: fewer at the end of the file."""

    def stretch(self, size: int, position: int, header: bytes) -> Sendable:
        """The same, to be sent, uncopied where that is possible. They begin with `header`, and stay as they are."""

    def sync(self) -> None:
        """Data and the size are on the medium when this returns (fdatasync). May be called from any thread."""

    def sync_in_pieces(self, since: int) -> None:
        """The same, of a file that may have much to write from `since` on: little at a time, so that the syncs of other
        files do not wait for all of it. For what nobody waits for.
        """

    def truncate(self, size: int) -> None: ...

    def size(self) -> int: ...

    def allocate(self, size: int) -> None:
        """Reserve room for `size` bytes, without changing what a reader sees as the file's size."""

    def close(self) -> None: ...


class Disk(Protocol):
    """Files and directories below one root. Paths are relative to it, with forward slashes.

    A name (created, renamed or removed) is durable only after `sync_directory` of the directory that holds it.
    """

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and writing. FileNotFoundError if it is missing and `create` is false."""

    def exists(self, path: str) -> bool: ...

    def list(self, path: str) -> Sequence[str]:
        """The names in a directory, sorted; empty if there is no such directory."""

    def make_directory(self, path: str) -> None:
        """With its parents; no error if it is there."""

    def rename(self, source: str, target: str) -> None:
        """Atomic; replaces a target file."""

    def remove(self, path: str) -> None:
        """Remove a file; no error if it is missing."""

    def remove_tree(self, path: str) -> None: ...

    def sync_directory(self, path: str) -> None: ...

    def sync(self) -> None:
        """All bytes and names below the root are on the medium when this returns. May be called from any thread.

        For a great many files: it takes as long as the system has unsynced data, ours or not.
        """

    def size(self, path: str) -> int: ...

    def free_bytes(self) -> int: ...
