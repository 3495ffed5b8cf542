"""The write-ahead journal: one sequential write and one sync make a commit of any number of logs durable.

The journal is a ring of files that are allocated and written with zeros beforehand, because a sync that has no
allocation to record takes about half the time (docs/decisions/0002-journal.md). A commit is a block (`journal_format`),
written at once at the end of the current file. A full file is followed by a free one, or by a new one (without zeros)
if the background is behind with making files, or with the logs' own syncs, which free the oldest.

The first file of a ring is small and made at once, so that a new node answers without delay; the next is made in the
background while the third quarter of the current one is filled, a few times as large, until files have the size that is
asked for. An idle node never makes it, and one with little to write none that is large. Where little is written, zeros
are made a little at a time: a commit that comes meanwhile waits for that, and not for a whole file.

All decisions are made in the event loop (`block`, `release`); a thread is handed objects that hold all they need
(`Block`, `FilePreparation`).
"""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ottla.storage.journal_format import (
    BLOCK_HEADER_BYTES,
    SALT_BYTES,
    SECTOR_BYTES,
    block_header,
    file_header,
    read_file_header,
    round_up,
)
from ottla.values import value

if TYPE_CHECKING:
    from ottla.ports import Bytes, Disk, File, Random

DIRECTORY = "journal"
SUFFIX = ".wal"
FIRST_FILE_BYTES = 1 << 20
"""What can be written with zeros in passing."""
GROWTH = 8
"""How much larger the next file may be. Zeros for 64 MiB keep the disk from the first commits of a node for 100 ms."""
STRETCH_BYTES = 256 << 10
"""Of zeros, the least that is made and synced at a time."""
FREE_FILES_MAX = 2
"""Files kept for later use; more are removed, so that a burst does not hold its room on the disk for ever."""
RESERVE_BYTES = 16 << 20
"""What is left on the disk for the node's own records and blocks. Files are not made in advance from that."""
NO_TURN = 1 << 62
_ZEROS = bytes(256 << 10)


class JournalFile:
    """One file of the ring. What it holds of an earlier use is void: a use begins with a salt of its own."""

    __slots__ = ("_disk", "capacity_bytes", "file", "last_sequence", "new_name", "number", "salt")

    def __init__(self, disk: Disk, number: int, file: File, capacity_bytes: int, *, new_name: bool) -> None:
        self._disk = disk
        self.number = number
        self.file = file
        self.capacity_bytes = capacity_bytes
        self.salt = b""
        self.last_sequence = 0
        self.new_name = new_name
        """Whether the directory must be synced before a crash is sure to find it."""

    def sync(self) -> None:
        """All blocks that were written into it are on the medium when this returns. Any thread."""
        self.file.sync()
        if self.new_name:
            self._disk.sync_directory(DIRECTORY)
            self.new_name = False


class Block:
    """One block with its place in the ring."""

    __slots__ = ("buffers", "into", "position", "sequence")

    def __init__(self, into: JournalFile, position: int, sequence: int, buffers: list[Bytes]) -> None:
        self.into = into
        self.position = position
        self.sequence = sequence
        self.buffers = buffers

    def write(self) -> None:
        """Any thread. Durable after `into.sync`."""
        if self.position == SECTOR_BYTES:
            self.into.file.pwritev([file_header(self.into.salt), *self.buffers], 0)
        else:
            self.into.file.pwritev(self.buffers, self.position)


class FilePreparation:
    """Makes a file of the ring ready for use, as far as is said. `run` may be called from any thread, then the loop
    calls `add`, until all of it is made.
    """

    def __init__(self, disk: Disk, number: int, size_bytes: int) -> None:
        self._disk = disk
        self._number = number
        self._file: File | None = None
        self.size_bytes = size_bytes
        self.upto_bytes = size_bytes
        """How far `run` goes."""
        self.made_bytes = 0
        self.made: JournalFile | None = None
        """When all of it is."""

    @property
    def has_failed(self) -> bool:
        """After `run`."""
        return self.made_bytes < self.upto_bytes

    def run(self) -> None:
        """OSError if the disk refuses, or if the reserve would not be left on it. The file is gone then."""
        path = file_path(self._number)
        file = self._file
        if file is None:
            file = self._file = self._disk.open(path, create=True)
        try:
            for at in range(self.made_bytes, self.upto_bytes, len(_ZEROS)):
                if self._disk.free_bytes() < RESERVE_BYTES + len(_ZEROS):
                    raise OSError(errno.ENOSPC, "No space is left but the reserve", path)
                file.pwritev([_ZEROS[: self.upto_bytes - at]], at)
            file.sync_in_pieces(self.made_bytes)
        except OSError:
            self._disk.remove(path)  # a part of it would only take room that is missing
            raise
        if self.upto_bytes == self.size_bytes:
            self._disk.sync_directory(DIRECTORY)
            self.made = JournalFile(self._disk, self._number, file, self.size_bytes, new_name=False)
        self.made_bytes = self.upto_bytes

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


@value
class Resume:
    """Where writing goes on after a restart: behind the last block that counts."""

    file_number: int
    position: int
    next_sequence: int


class Journal:
    """The ring as it is written. Reading it back is `journal_reader`'s part."""

    def __init__(self, disk: Disk, random: Random, *, file_size_bytes: int, resume: Resume | None = None) -> None:
        """Files other than the one that `resume` names are used once a first block is durable: until then a crash may
        find what is in them still needed.
        """
        self._disk = disk
        self._random = random
        self._file_size_bytes = round_up(file_size_bytes)
        self.next_sequence = resume.next_sequence if resume else 1
        self.oldest = self.next_sequence
        """The first block that recovery must look at."""
        self.synced = self.next_sequence - 1
        """The last block that is known to be on the medium."""
        self._position = resume.position if resume else 0
        self._current: JournalFile | None = None
        self._block_bytes = 0
        """Of the last block."""
        self._turn_position = 0
        """Where in the current file more of the next one should be made; NO_TURN once that was told."""
        self.is_at_a_turn = False
        """Whether a file was begun, or filled to where the next one should be made, since `preparation` was called."""
        self._full: deque[JournalFile] = deque()
        self._released: deque[tuple[int, JournalFile]] = deque()
        """Files that nobody needs once the block of this number, which says so, is durable."""
        self._free: list[JournalFile] = []
        self._making: FilePreparation | None = None
        self._is_preparing = False
        self._next_number = 0
        for file in _existing_files(disk):
            self._next_number = file.number + 1
            if resume and file.number == resume.file_number:
                self._current = file
            else:
                self._released.append((self.next_sequence, file))

    # Writing

    def block(self, payload: Sequence[Bytes], payload_bytes: int, entry_count: int) -> Block:
        """Give `payload` its place and number. It counts once it is written and synced."""
        size_bytes = round_up(BLOCK_HEADER_BYTES + payload_bytes)
        into = self._current
        if into is None or self._position + size_bytes > into.capacity_bytes:
            into = self._start_file(SECTOR_BYTES + size_bytes)
        sequence, position = self.next_sequence, self._position
        header = block_header(into.salt, sequence, self.oldest, self.synced, payload_bytes, entry_count)
        into.last_sequence = sequence
        self.next_sequence = sequence + 1
        self._position = end = position + size_bytes
        self._block_bytes = size_bytes
        if end >= self._turn_position:
            self._turn_position = NO_TURN
            self.is_at_a_turn = True
        return Block(into, position, sequence, [header, *payload])

    def begin_again(self) -> None:
        """After a crash: write once more what the file begins with in which writing goes on, and sync its name too.

        Both may be seen without being on the disk: a sync that failed, for which Linux takes the pages for clean, or
        that was never come to. Without them nothing in the file could be found.
        """
        if self._current is not None:
            self._current.file.pwritev([file_header(self._current.salt)], 0)
            self._current.new_name = True

    def rewind(self, block: Block) -> None:
        """`block` was not synced, nor any after it: the next one takes its place and number."""
        while self._current is not block.into:
            if self._current is not None:
                self._free.append(self._current)
            self._current = self._full.pop()
        self.next_sequence = block.sequence
        self._position = block.position
        self._turn_position = 0
        block.into.last_sequence = block.sequence - 1

    def mark_synced(self, sequence: int) -> None:
        """Blocks up to `sequence` are on the medium."""
        self.synced = max(self.synced, sequence)
        while self._released and self._released[0][0] <= sequence:
            self._make_free(self._released.popleft()[1])

    # The ring

    @property
    def full_files(self) -> int:
        """Files that wait for the logs' own syncs."""
        return len(self._full)

    @property
    def size_bytes(self) -> int:
        """Of all its files."""
        released = (file for _, file in self._released)
        current = () if self._current is None else (self._current,)
        whole_bytes: int = sum(file.capacity_bytes for file in (*self._full, *released, *self._free, *current))
        return whole_bytes if self._making is None else whole_bytes + self._making.made_bytes

    @property
    def position(self) -> Resume:
        """Where the next block goes, if it fits."""
        current = self._current
        number = current.number if current is not None else -1
        return Resume(file_number=number, position=self._position, next_sequence=self.next_sequence)

    def release(self, oldest: int) -> None:
        """Blocks before `oldest` are not needed any more."""
        self.oldest = max(self.oldest, oldest)
        while self._full and self._full[0].last_sequence < self.oldest:
            self._released.append((self.next_sequence, self._full.popleft()))

    def preparation(self) -> FilePreparation | None:
        """The next file, if some of it should be made now."""
        self.is_at_a_turn = False
        current = self._current
        if self._is_preparing or current is None or self._position < _half(current):
            return None
        if self._making is None:
            if self._free or self._released:
                return None
            number, self._next_number = self._next_number, self._next_number + 1
            size_bytes = min(GROWTH * current.capacity_bytes, self._file_size_bytes)
            self._making = FilePreparation(self._disk, number, size_bytes)
        making, quarter = self._making, _quarter(current)
        # As great a part of it as another block like the last one will have filled of the third quarter of this one.
        filled_bytes = self._position + self._block_bytes - _half(current)
        stretches = making.size_bytes * filled_bytes // quarter // STRETCH_BYTES + 1
        wanted_bytes = min(stretches * STRETCH_BYTES, making.size_bytes)
        if wanted_bytes <= making.made_bytes:
            filled_bytes = -(-quarter * making.made_bytes // making.size_bytes)
            self._turn_position = _half(current) + filled_bytes - self._block_bytes
            return None
        making.upto_bytes = wanted_bytes
        self._is_preparing = True
        return making

    def add(self, preparation: FilePreparation) -> None:
        """Take what `preparation` made: the file, if it is all there. It may have failed."""
        self._is_preparing = False
        if preparation.made is not None:
            self._free.append(preparation.made)
        if preparation.made is not None or preparation.has_failed:
            self._making = None

    def close(self) -> None:
        if self._making is not None:
            self._making.close()
        files = [*self._free, *self._full, *(file for _, file in self._released)]
        for file in (*files, self._current) if self._current else files:
            file.file.close()

    def _start_file(self, size_bytes: int) -> JournalFile:
        """Go on in a free file, or a new one if none is large enough."""
        fitting = [file for file in self._free if file.capacity_bytes >= size_bytes]
        file = max(fitting, key=lambda file: file.capacity_bytes) if fitting else self._new_file(size_bytes)
        if fitting:
            self._free.remove(file)
        if self._current is not None:
            self._full.append(self._current)
        file.salt = self._random.randbytes(SALT_BYTES)
        self._current = file
        self._position = SECTOR_BYTES
        self._turn_position = _half(file)
        self.is_at_a_turn = True
        return file

    def _new_file(self, size_bytes: int) -> JournalFile:
        """A file in a hurry. Its sync comes with its first block."""
        number, self._next_number = self._next_number, self._next_number + 1
        if self._disk.exists(DIRECTORY):  # the background is behind: go on without zeros
            capacity_bytes = max(self._file_size_bytes, round_up(size_bytes))
            file = self._disk.open(file_path(number), create=True)
        else:
            self._disk.make_directory(DIRECTORY)
            self._disk.sync_directory("")
            capacity_bytes = max(min(FIRST_FILE_BYTES, self._file_size_bytes), round_up(size_bytes))
            file = self._disk.open(file_path(number), create=True)
            for at in range(0, capacity_bytes, len(_ZEROS)):
                file.pwritev([_ZEROS[: capacity_bytes - at]], at)
        return JournalFile(self._disk, number, file, capacity_bytes, new_name=True)

    def _make_free(self, file: JournalFile) -> None:
        """Keep it for later use, unless there are enough, or the ring has outgrown it."""
        wanted_bytes = min(self._current.capacity_bytes if self._current else 0, self._file_size_bytes)
        if len(self._free) < FREE_FILES_MAX and file.capacity_bytes >= wanted_bytes:
            self._free.append(file)
        else:
            file.file.close()
            self._disk.remove(file_path(file.number))


def _half(file: JournalFile) -> int:
    """Where the making of the next one begins."""
    return -(-file.capacity_bytes // 2)


def _quarter(file: JournalFile) -> int:
    """While so much is written, it is made."""
    return max(file.capacity_bytes // 4, 1)


def file_path(number: int) -> str:
    return f"{DIRECTORY}/{number:08d}{SUFFIX}"


def file_numbers(disk: Disk) -> list[int]:
    stems = [name.removesuffix(SUFFIX) for name in disk.list(DIRECTORY) if name.endswith(SUFFIX)]
    return sorted(int(stem) for stem in stems if stem.isascii() and stem.isdigit())


def _existing_files(disk: Disk) -> Iterator[JournalFile]:
    """The size on disk is what a file can hold without growing: less than asked for if its making was interrupted."""
    for number in file_numbers(disk):
        file = disk.open(file_path(number))
        existing = JournalFile(disk, number, file, file.size() // SECTOR_BYTES * SECTOR_BYTES, new_name=False)
        existing.salt = read_file_header(file.pread(SECTOR_BYTES, 0)) or b""
        yield existing
