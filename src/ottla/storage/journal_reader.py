"""Reading the journal after a stop that was not clean: which blocks are there, and which of them count.

The newest blocks may be torn: commits that the crash interrupted, and that nobody was told of. They are left out, and
what was written after the first of them too. An older block that can't be read is another matter: it was synced, so
something was acknowledged and has rotted since. It is reported, what can be read of it is used, and reading goes on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ottla.storage.journal import Resume, file_numbers, file_path
from ottla.storage.journal_format import (
    BLOCK_HEADER_BYTES,
    BLOCK_MAGIC,
    ENTRY_BYTES,
    SECTOR_BYTES,
    BlockHeader,
    Entry,
    Kind,
    end_of_intact,
    read_block_header,
    read_entry,
    read_file_header,
)

if TYPE_CHECKING:
    from ottla.ports import Disk, File
    from ottla.types import TopicId

_PIECE_BYTES = 1 << 20
KEPT_BYTES_MAX = 256
"""Batches of an entry that are kept when it is read: they take no more memory than the entry itself. A busy journal has
hundreds of thousands of those, and to read each again would be a system call each."""


class LoggedEntry(NamedTuple):
    """One entry, and where in the journal its batches are."""

    kind: Kind
    topic_id: TopicId
    partition: int
    offset: int
    end_offset: int
    """Behind its batches; its offset, if it has none that can be used."""
    intact: bool
    """Whether its batches can be used; where not, it still tells that there was something."""
    file_number: int
    position: int
    data_bytes: int
    kept: bytes | None = None
    """The batches themselves, where they are small; then it does not say where they are."""


class _FoundBlock(NamedTuple):
    header: BlockHeader
    file_number: int
    position: int

    @property
    def name(self) -> str:
        return f"block {self.header.sequence} of the journal ({file_path(self.file_number)})"


class JournalReader:
    """What the journal holds. Made once, at the start; nothing is written."""

    def __init__(self, disk: Disk) -> None:
        self._files: dict[int, File] = {}
        self._blocks: dict[int, _FoundBlock] = {}
        self._topic_ids: dict[TopicId, TopicId] = {}
        """One of each, for all its entries."""
        self.damage: list[str] = []
        """What was synced and can't be read any more, as sentences."""
        self.hides_entries = False
        """Whether there were entries of which it can't even be told to which log they belong."""
        self.torn_blocks = 0
        """Commits that the crash interrupted."""
        for number in file_numbers(disk):
            self._find_blocks(disk, number)
        self._newest = max(self._blocks, default=0)
        self._synced = max((block.header.synced for block in self._blocks.values()), default=0)
        self._last = self._last_that_counts()
        self.oldest = self._oldest()

    @property
    def block_count(self) -> int:
        """Blocks that count."""
        return sum(self.oldest <= sequence <= self._last for sequence in self._blocks)

    def entries(self) -> Iterator[LoggedEntry]:
        """The entries of all blocks that count, in the order in which they were committed."""
        for sequence in range(self.oldest, self._last + 1):
            block = self._blocks.get(sequence)
            if block is None:
                self.hides_entries = True
                self.damage.append(f"Block {sequence} of the journal is missing or can't be read.")
            else:
                yield from self._entries_of(block)

    def data(self, entry: LoggedEntry) -> bytes:
        """The batches of an APPEND."""
        if entry.kept is not None:
            return entry.kept
        return self._files[entry.file_number].pread(entry.data_bytes, entry.position)

    def resume(self) -> Resume | None:
        """Where to write on: behind the last block that counts, with a number that no block has had."""
        last = self._blocks.get(self._last)
        if last is None:
            return Resume(file_number=-1, position=0, next_sequence=self._newest + 1) if self._newest else None
        position = last.position + last.header.distance_bytes
        return Resume(file_number=last.file_number, position=position, next_sequence=self._newest + 1)

    def close(self) -> None:
        for file in self._files.values():
            file.close()

    # Finding blocks

    def _find_blocks(self, disk: Disk, number: int) -> None:
        file = disk.open(file_path(number))
        self._files[number] = file
        header = file.pread(SECTOR_BYTES, 0)
        salt = read_file_header(header)
        if salt is None:
            if header.strip(b"\0"):
                self.hides_entries = True
                self.damage.append(f"{file_path(number)} does not start as a journal file should.")
            return
        size, position, last = file.size(), SECTOR_BYTES, 0
        while position < size:
            block = read_block_header(file.pread(BLOCK_HEADER_BYTES, position), salt)
            if block is None or block.sequence <= last or position + block.size_bytes > size:
                position = self._next_candidate(file, position + SECTOR_BYTES, salt)
                continue
            last = block.sequence
            self._blocks[last] = _FoundBlock(block, number, position)
            position += block.distance_bytes

    @staticmethod
    def _next_candidate(file: File, position: int, salt: bytes) -> int:
        """The next sector that starts like a block; the end of the file if there is none."""
        size = file.size()
        while position < size:
            piece = file.pread(_PIECE_BYTES, position)
            at = piece.find(BLOCK_MAGIC + salt)
            while at >= 0 and at % SECTOR_BYTES:
                at = piece.find(BLOCK_MAGIC + salt, at + 1)
            if at >= 0:
                return position + at
            position += _PIECE_BYTES
        return size

    # Judging blocks

    def _last_that_counts(self) -> int:
        """All that was known to be synced, and after it all that is whole and has no gap before it."""
        last = self._synced
        while last < self._newest:
            block = self._blocks.get(last + 1)
            if block is None or not self._is_whole(block):
                self.torn_blocks = sum(sequence > last for sequence in self._blocks)
                break
            last += 1
        return last

    def _oldest(self) -> int:
        readable = [sequence for sequence in self._blocks if sequence <= self._last]
        return self._blocks[max(readable)].header.oldest if readable else self._last + 1

    def _is_whole(self, block: _FoundBlock) -> bool:
        found = 0
        for _, entry in self._parse(block):
            if entry is None or not entry.intact:
                return False
            found += 1
        return found == block.header.entry_count

    def _entries_of(self, block: _FoundBlock) -> Iterator[LoggedEntry]:
        for number, entry in self._parse(block):
            if entry is None:
                self.hides_entries = True
                self.damage.append(f"Only {number} of {block.header.entry_count} entries of {block.name} can be read.")
                return
            if not entry.intact:
                self.damage.append(f"The records of entry {number + 1} of {block.name} are damaged.")
            yield entry

    def _parse(self, block: _FoundBlock) -> Iterator[tuple[int, LoggedEntry | None]]:
        """Each entry with its number; None in its place, and no more after it, if it can't be told where it ends."""
        file_number = block.file_number
        start = block.position + BLOCK_HEADER_BYTES
        payload = self._files[file_number].pread(block.header.payload_bytes, start)
        at = 0
        for number in range(block.header.entry_count):
            entry = read_entry(payload, at)
            if entry is None:
                yield number, None
                return
            at += ENTRY_BYTES
            yield number, self._logged(entry, file_number, start + at)
            at += len(entry.data)

    def _logged(self, entry: Entry, file_number: int, position: int) -> LoggedEntry:
        kind, topic_id, partition, offset, data = entry
        topic_id = self._topic_ids.setdefault(topic_id, topic_id)
        end_offset = end_of_intact(data) if data else offset
        intact = end_offset is not None
        if end_offset is None:
            end_offset = offset
        size = len(data)
        if size <= KEPT_BYTES_MAX:
            return LoggedEntry(kind, topic_id, partition, offset, end_offset, intact, 0, 0, size, data)
        return LoggedEntry(kind, topic_id, partition, offset, end_offset, intact, file_number, position, size)
