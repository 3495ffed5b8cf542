"""The bytes of the journal: files, blocks and entries. All integers are big-endian.

A file starts with a header of one sector, then come blocks, each at the start of a sector, so that writing one never
touches a sector that an earlier commit relies on:

    file header    magic 8 B · version 4 B · salt 8 B · CRC-32C of these 4 B · zeros up to 512 B
    block header   magic 4 B · salt 8 B · sequence 8 B · oldest 8 B · synced 8 B · payload bytes 4 B · entries 4 B
                   · CRC-32C of these 4 B
    entry          CRC-32C 4 B · kind 1 B · zeros 3 B · topic id 16 B · partition 4 B · offset 8 B · data bytes 4 B
                   · batches 4 B, and for an APPEND the batches themselves

`salt` is random, new whenever a file is written from the start, and repeated in every block: what an earlier use left
in the file, or what a client put into a record to look like a block, is never taken for one. `sequence` counts blocks
without a gap over all files. `oldest` is the first block that recovery must still look at, `synced` the last one that
was known to be on the medium when this one was made: a block up to there that can't be read is damage, one after it a
commit that the crash interrupted.

The CRC of an entry covers its header and the heads of its batches (a head is the 21 bytes that a batch's own CRC does
not cover); the rest of a batch is covered by the CRC in its head. So no byte is unprotected, and writing costs no
checksum over records.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.protocol.records import (
    BODY_AT,
    HEAD,
    LAST_OFFSET_DELTA_AT,
    LENGTH_BYTES_MIN,
    LENGTH_OVERHEAD_BYTES,
    crc32c,
)

if TYPE_CHECKING:
    from ottla.ports import Bytes
    from ottla.types import TopicId

SECTOR_BYTES = 512
SALT_BYTES = 8
VERSION = 1

_FILE_MAGIC = b"OTTLAWAL"
BLOCK_MAGIC = b"OTBK"
_FILE_HEADER = struct.Struct(">8sI8s")
_BLOCK_HEADER = struct.Struct(">4s8sQQQII")
_ENTRY_FIELDS = struct.Struct(">B3x16siqII")
_CRC = struct.Struct(">I")
_APPEND_KEY = struct.Struct(">B3x16si")
_APPEND_FIELDS = struct.Struct(f">{_APPEND_KEY.size}s8sII")
"""`_ENTRY_FIELDS` of an append, with all before the offset as one piece. Of the head of a batch it takes the offset."""
_CRC_BYTES = _CRC.size
_pack_append: Final = _APPEND_FIELDS.pack
_pack_crc: Final = _CRC.pack
_unpack_crc: Final = _CRC.unpack_from
_unpack_entry: Final = _ENTRY_FIELDS.unpack
_unpack_head: Final = HEAD.unpack_from
_unpack_last_offset_delta = struct.Struct(">i").unpack_from

BLOCK_HEADER_BYTES = _BLOCK_HEADER.size + _CRC.size
ENTRY_BYTES = _ENTRY_FIELDS.size + _CRC.size


class Kind(IntEnum):
    """What an entry says of its log."""

    APPEND = 1
    """These batches, from `offset` on. What the log had from there on is replaced."""
    TRUNCATE = 2
    """The log ends at `offset`."""
    RESTART = 3
    """The log is empty and begins at `offset`."""
    START_OFFSET = 4
    """The log begins at `offset`, if it didn't begin later already."""
    SYNCED = 5
    """The segments hold everything below `offset`, synced, and the log ends there. Batches of earlier entries are not
    needed any more."""
    REMOVED = 6
    """The log is deleted. A later entry is of a new log in the same place."""
    UNJOURNALED = 7
    """The log was cut to `offset`, and may have grown since: its records are not journaled, so whatever the segments
    hold counts as far as it is intact."""


_KINDS = {kind.value: kind for kind in Kind}
"""To look one up in a table costs a fifth of asking the enumeration, and there may be a million entries."""


class BlockHeader(NamedTuple):
    sequence: int
    oldest: int
    synced: int
    payload_bytes: int
    entry_count: int

    @property
    def size_bytes(self) -> int:
        return BLOCK_HEADER_BYTES + self.payload_bytes

    @property
    def distance_bytes(self) -> int:
        """How far the next block is."""
        return round_up(self.size_bytes)


class Entry(NamedTuple):
    kind: Kind
    topic_id: TopicId
    partition: int
    offset: int
    data: bytes
    """Its batches."""


def round_up(size_bytes: int) -> int:
    return -(-size_bytes // SECTOR_BYTES) * SECTOR_BYTES


# Writing


def file_header(salt: bytes) -> bytes:
    fields = _FILE_HEADER.pack(_FILE_MAGIC, VERSION, salt)
    return (fields + _CRC.pack(crc32c(fields))).ljust(SECTOR_BYTES, b"\0")


def block_header(salt: bytes, sequence: int, oldest: int, synced: int, payload_bytes: int, entry_count: int) -> bytes:
    fields = _BLOCK_HEADER.pack(BLOCK_MAGIC, salt, sequence, oldest, synced, payload_bytes, entry_count)
    return fields + _CRC.pack(crc32c(fields))


def append_key(topic_id: TopicId, partition: int) -> bytes:
    """What the entries of a log's appends have in common."""
    return _APPEND_KEY.pack(Kind.APPEND, topic_id, partition)


def append_entry(key: bytes, buffers: Sequence[bytes], size_bytes: int) -> bytes:
    """What stands before `buffers`, which are head, body, head, body…: a head begins with the offset."""
    fields = _pack_append(key, buffers[0], size_bytes, len(buffers) // 2)
    return _pack_crc(crc32c(b"".join((fields, *buffers[::2])))) + fields


def append_single(payload: list[Bytes], key: bytes, buffers: Sequence[bytes], size_bytes: int) -> None:
    """Add an entry with its one batch to `payload`. A commit over many logs has hundreds of them."""
    head, body = buffers
    fields = _pack_append(key, head, size_bytes, 1)
    payload += (_pack_crc(crc32c(fields + head)), fields, head, body)


def control_entry(kind: Kind, topic_id: TopicId, partition: int, offset: int) -> bytes:
    fields = _ENTRY_FIELDS.pack(kind, topic_id, partition, offset, 0, 0)
    return _CRC.pack(crc32c(fields)) + fields


# Reading


def read_file_header(data: bytes) -> bytes | None:
    """The salt; None if this is not the start of a journal file that we can read."""
    if len(data) < _FILE_HEADER.size + _CRC.size:
        return None
    magic, version, salt = _FILE_HEADER.unpack_from(data)
    (crc,) = _CRC.unpack_from(data, _FILE_HEADER.size)
    if magic != _FILE_MAGIC or version != VERSION or crc != crc32c(data[: _FILE_HEADER.size]):
        return None
    return bytes(salt)


def read_block_header(data: bytes, salt: bytes) -> BlockHeader | None:
    if len(data) < BLOCK_HEADER_BYTES:
        return None
    magic, found_salt, *fields = _BLOCK_HEADER.unpack_from(data)
    (crc,) = _CRC.unpack_from(data, _BLOCK_HEADER.size)
    if magic != BLOCK_MAGIC or found_salt != salt or crc != crc32c(data[: _BLOCK_HEADER.size]):
        return None
    return BlockHeader(*fields)


def read_entry(payload: bytes, at: int) -> Entry | None:
    """The entry at `at`; None if it can't be told what stands there."""
    data_at = at + ENTRY_BYTES
    if data_at > len(payload):
        return None
    (crc,) = _unpack_crc(payload, at)
    fields = payload[at + _CRC_BYTES : data_at]
    kind, topic_id, partition, offset, data_bytes, batch_count = _unpack_entry(fields)
    data = payload[data_at : data_at + data_bytes]
    heads = _heads(data, batch_count)
    if heads is None or len(data) != data_bytes or crc != crc32c(fields + heads):
        return None
    return Entry(_KINDS.get(kind) or Kind(kind), topic_id, partition, offset, data)


def _heads(data: bytes, batch_count: int) -> bytes | None:
    """The heads of the batches in `data`; None if their lengths don't add up."""
    heads, at, size = [], 0, len(data)
    while at < size:
        if size - at < BODY_AT:
            return None
        end = at + _unpack_head(data, at)[1] + LENGTH_OVERHEAD_BYTES
        if not at + BODY_AT <= end <= size:
            return None
        heads.append(data[at : at + BODY_AT])
        at = end
    return b"".join(heads) if len(heads) == batch_count else None


def end_of_intact(data: bytes) -> int | None:
    """The offset behind the batches of an entry, of which there are some; None if one has not the checksum that its
    head says. Their lengths are known to be right.
    """
    at, size, base_offset = 0, len(data), 0
    while at < size:
        base_offset, length, _, _, crc = _unpack_head(data, at)
        end = at + length + LENGTH_OVERHEAD_BYTES
        if length < LENGTH_BYTES_MIN or crc32c(data[at + BODY_AT : end]) != crc:
            return None
        last_at, at = at, end
    return int(base_offset + _unpack_last_offset_delta(data, last_at + LAST_OFFSET_DELTA_AT)[0] + 1)
