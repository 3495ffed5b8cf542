"""The `.snapshot` file: what is known of the producers at the offset in its name.

Kafka's format: version 1, a CRC-32C of all that follows it, the number of entries, then the entries. Kafka writes one
per producer, so that it knows only the last batch of each after a restart, and refuses a repetition of an older one as
out of order, although the client may have five under way. We write one per batch that is remembered, oldest first.
Kafka, which takes the last entry of a producer, can read that.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from google_crc32c import value as crc32c

from ottla.errors import CorruptLogError

_HEADER = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")
_VERSION = 1


class SnapshotEntry(NamedTuple):
    """One producer and one of its batches, field by field as it is on disk."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    """Of the batch; -1 if all that is known is a transaction marker."""
    offset_delta: int
    """Records in the batch, less one."""
    timestamp_ms: int
    coordinator_epoch: int
    txn_first_offset: int
    """Where its open transaction begins; -1 if it has none."""


def encode_snapshot(entries: Iterable[SnapshotEntry]) -> bytes:
    packed = [_ENTRY.pack(*entry) for entry in entries]
    body = _COUNT.pack(len(packed)) + b"".join(packed)
    return _HEADER.pack(_VERSION, crc32c(body)) + body


def decode_snapshot(data: bytes) -> list[SnapshotEntry]:
    if len(data) < _HEADER.size + _COUNT.size:
        raise CorruptLogError(f"a producer snapshot of {len(data)} bytes is too short to be one")
    version, crc = _HEADER.unpack_from(data)
    if version != _VERSION:
        raise CorruptLogError(f"version {version} of producer snapshots is not known")
    body = data[_HEADER.size :]
    if crc32c(body) != crc:
        raise CorruptLogError("the checksum of the producer snapshot is wrong")
    (count,) = _COUNT.unpack_from(body)
    if len(body) != _COUNT.size + count * _ENTRY.size:
        raise CorruptLogError(f"a producer snapshot of {count} entries has the wrong length")
    return [SnapshotEntry(*fields) for fields in _ENTRY.iter_unpack(body[_COUNT.size :])]
