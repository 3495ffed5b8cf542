"""The first half of a compaction: where each key was last written.

The map holds the keys themselves, or hashes of long ones, and is bounded by a setting; when it is full, what follows
waits for the next compaction. From the map comes a second thing that makes the other half cheap: the sorted offsets of
all records that stay. Most batches of a log that needs compaction hold none of them, and go without being opened.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from typing import TYPE_CHECKING

from ottla.errors import CorruptBatchError
from ottla.protocol.compression import Compression, decompress
from ottla.protocol.records import (
    BATCH_HEADER,
    BODY_AT,
    COMPRESSION_MASK,
    CONTROL_BIT,
    RECORDS_AT,
    UNCOMPRESSED_BYTES_MAX,
    crc32c,
)
from ottla.storage import names
from ottla.storage.compaction_records import note_keys, note_keys_with_gaps
from ottla.storage.compaction_transactions import SeenTransactions
from ottla.storage.scan import BatchScan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ottla.ports import Disk
    from ottla.storage.compaction_task import Source, Task

ENTRY_BYTES = 256
"""What a key costs at most, measured: the key, its offset, its places in the dictionary (more while that grows) and
among the sorted offsets."""

_OFFSETS = struct.Struct(">qi11xi")
_PACE_BYTES = 1 << 20


class KeyMap:
    """`offsets` by key for the records from `first_dirty` to `end_offset`, which are all or as many as fit."""

    def __init__(self, first_dirty: int, end_offset: int, limit: int) -> None:
        self.first_dirty = first_dirty
        self.end_offset = end_offset
        self.limit = limit
        self.offsets: dict[bytes, int] = {}
        self.stays: array[int] = array("q")
        """The offsets again, sorted."""
        self.is_full = False

    def staying_between(self, first: int, last: int) -> frozenset[int]:
        """The offsets from `first` to `last` whose records stay."""
        stays = self.stays
        at = bisect_left(stays, first)
        if at == len(stays) or stays[at] > last:
            return frozenset()
        return frozenset(stays[at : bisect_left(stays, last + 1, at)])


def build_map(disk: Disk, task: Task, pace: Callable[[int], None]) -> KeyMap:
    """Read what is dirty."""
    key_map = KeyMap(task.first_dirty, task.sources[-1].end_offset, max(task.map_bytes // ENTRY_BYTES, 1))
    transactions = SeenTransactions(task.aborted)
    for source in task.sources:
        if source.end_offset > task.first_dirty and not _note_segment(disk, task, source, key_map, transactions, pace):
            break
    key_map.stays = array("q", sorted(key_map.offsets.values()))
    return key_map


def _note_segment(
    disk: Disk,
    task: Task,
    source: Source,
    key_map: KeyMap,
    transactions: SeenTransactions,
    pace: Callable[[int], None],
) -> bool:
    """Whether there is room for more."""
    offsets, limit, first_dirty = key_map.offsets, key_map.limit, task.first_dirty
    for batch in batches_of(disk, task.directory, source, pace):
        fields = BATCH_HEADER.unpack_from(batch)
        base_offset, attributes, last_delta, count = fields[0], fields[5], fields[6], fields[12]
        last_offset = base_offset + last_delta
        if last_offset < first_dirty:
            continue
        is_void = transactions.may_discard(batch, attributes, fields[9], last_offset)
        if is_void or attributes & CONTROL_BIT or not count:
            continue
        # A batch is noted as a whole, so the next compaction can begin after it.
        if offsets and len(offsets) + count > limit:
            key_map.is_full = True
            key_map.end_offset = base_offset
            return False
        data = content_of(batch, checked=True)
        if count == last_delta + 1 and base_offset >= first_dirty:
            note_keys(data, count, base_offset, offsets)
        else:
            note_keys_with_gaps(data, count, base_offset, first_dirty, offsets)
    return True


def batches_of(disk: Disk, directory: str, source: Source, pace: Callable[[int], None]) -> Iterator[memoryview]:
    path = f"{directory}/{names.file_name(source.base_offset, names.LOG)}"
    file = disk.open(path)
    try:
        scan = BatchScan(file, 0, source.size_bytes)
        paced, next_offset = 0, source.base_offset
        for batch in scan:
            base_offset, _, delta = _OFFSETS.unpack_from(batch)
            if base_offset < next_offset or delta < 0 or base_offset + delta >= source.end_offset:
                raise CorruptBatchError(f"{path}: offsets {base_offset} to {base_offset + delta} are out of order")
            next_offset = base_offset + delta + 1
            if scan.position - paced >= _PACE_BYTES:
                pace(scan.position - paced)
                paced = scan.position
            yield batch
        pace(scan.position - paced)
        if scan.problem:
            raise CorruptBatchError(f"{path}: {scan.problem}")
    finally:
        file.close()


def content_of(batch: memoryview, *, checked: bool = False) -> bytes:
    """The records of a batch, uncompressed."""
    fields = BATCH_HEADER.unpack_from(batch)
    if checked and crc32c(bytes(batch[BODY_AT:])) != fields[4]:
        raise CorruptBatchError(f"the checksum of the batch at offset {fields[0]} is wrong")
    codec = fields[5] & COMPRESSION_MASK
    if codec == Compression.NONE:
        return bytes(batch[RECORDS_AT:])
    return decompress(Compression(codec), batch[RECORDS_AT:], UNCOMPRESSED_BYTES_MAX)
