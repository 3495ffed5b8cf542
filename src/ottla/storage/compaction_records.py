"""The loops of compaction that run once for every record.

Everything else costs per batch; here ten million records are ten million turns, so nothing is called that can be said
in place, and no record is built. Four facts save most of the work:

- A batch as a producer sent it has the offsets 0, 1, 2 … from its base on: its records are counted, not read.
- Records of a batch that all have the same sizes are checked and taken apart column by column.
- Of a record that goes or stays by its offset only the length is read.
- A record that stays is copied as it is, since its batch keeps its base offset and base timestamp.

What is wrong with the bytes shows as an IndexError or as an end that is not the end; both are CorruptBatchError.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from ottla.errors import CorruptBatchError
from ottla.protocol.record import read_varint, varint

if TYPE_CHECKING:
    from collections.abc import Collection

KEY_BYTES_MAX = 32
"""A longer key is known by a hash. The hash is longer than any key that is known by itself, so no two can be mixed up
by someone who makes up keys."""
_HASH_BYTES = KEY_BYTES_MAX + 1
_NULL = 1
"""The length of a key or value that is not there, as a varint."""
_SHORT = 2 * KEY_BYTES_MAX
"""The longest key that is known by itself, as a varint."""


def key_hash(key: bytes) -> bytes:
    return blake2b(key, digest_size=_HASH_BYTES).digest()


class Kept(NamedTuple):
    """A record that stays, as it is in its batch."""

    start: int
    end: int
    timestamp_delta_ms: int
    is_tombstone: bool


def note_keys(data: bytes, count: int, base_offset: int, offsets: dict[bytes, int]) -> None:
    """Put the offset of each record under its key, for a batch whose offsets have no gaps."""
    at = first = 0
    try:
        for width, upto in _WIDTHS:
            last = min(upto, count)
            size = _note_alike(data, at, width, base_offset + first, base_offset + last, offsets)
            if size:
                at += size
            else:
                at = _note_each(data, at, width, base_offset + first, base_offset + last, offsets)
            if last == count:
                break
            first = last
    except IndexError:
        raise _cut_short() from None
    _require_end(data, at)


_WIDTHS = ((1, 1 << 6), (2, 1 << 13), (3, 1 << 20), (4, 1 << 27), (5, 1 << 34))
"""The bytes that the offset of a record takes in its batch, and the first offset that takes more."""


def _note_each(data: bytes, at: int, width: int, first: int, end: int, offsets: dict[bytes, int]) -> int:
    """The records from offset `first` to before `end`. Returns where the next one starts."""
    to_key = width + 2
    for offset in range(first, end):
        size = data[at]
        if size > 127:
            more = data[at + 1]
            if more > 127:
                size, at = _long(data, at)
            else:
                size = size & 127 | more << 7
                at += 2
        else:
            at += 1
        following = at + (size >> 1)
        while data[at + 1] > 127:  # the timestamp
            at += 1
        at += to_key
        size = data[at]
        if _NULL < size <= _SHORT:
            at += 1
            offsets[data[at : at + (size >> 1)]] = offset
        elif size != _NULL:
            key = _key(data, at)
            if key is not None:
                offsets[key] = offset
        at = following
    return at


def _note_alike(data: bytes, at: int, width: int, first: int, end: int, offsets: dict[bytes, int]) -> int:
    """The same for records that all have the same sizes, as machines often write them: column by column.

    Returns the bytes that they take; 0, and nothing is noted, if they are not all alike.
    """
    count = end - first
    if count < _ALIKE_MIN:
        return 0
    length, body = read_varint(data, at)
    step = body + length - at
    stop = at + count * step
    if length < 0 or stop > len(data) or not data.startswith(data[at:body], stop - step):
        return 0
    _, after_time = read_varint(data, body + 1)
    key_at = after_time + width + 1
    key_size = data[key_at - 1]
    if not _NULL < key_size <= _SHORT or key_size & 1 or key_at + (key_size >> 1) > at + step:
        return 0
    # What makes a record as long as it is: its length, and those of its timestamp and its key.
    for position in (*range(at, body), key_at - 1):
        if data[position:stop:step].count(data[position]) != count:
            return 0
    if max(data[after_time - 1 : stop : step]) > 127 or any(
        min(data[position:stop:step]) < 128 for position in range(body + 1, after_time - 1)
    ):
        return 0
    key_bytes = key_size >> 1
    keys = [data[position : position + key_bytes] for position in range(key_at, stop, step)]
    offsets.update(zip(keys, range(first, end), strict=True))
    return stop - at


_ALIKE_MIN = 16


def note_keys_with_gaps(data: bytes, count: int, base_offset: int, from_offset: int, offsets: dict[bytes, int]) -> None:
    """The same where compaction was before, or where only what is not below `from_offset` counts."""
    at = 0
    try:
        for _ in range(count):
            length, at = read_varint(data, at)
            end = at + length
            _, at = read_varint(data, at + 1)
            delta, at = read_varint(data, at)
            key = _key(data, at)
            if key is not None and base_offset + delta >= from_offset:
                offsets[key] = base_offset + delta
            at = end
    except IndexError:
        raise _cut_short() from None
    _require_end(data, at)


def pick_offsets(data: bytes, count: int, base_offset: int, wanted: Collection[int]) -> list[Kept]:
    """The records whose offset is `wanted`, of a batch whose offsets have no gaps."""
    kept: list[Kept] = []
    at = 0
    try:
        for offset in range(base_offset, base_offset + count):
            start = at
            size = data[at]
            at += 1
            if size > 127:
                more = data[at]
                at += 1
                size = size & 127 | more << 7
                if more > 127:
                    size, at = _long(data, at - 2)
            end = at + (size >> 1)
            if offset in wanted:
                kept.append(_kept(data, start, at, end))
            at = end
    except IndexError:
        raise _cut_short() from None
    _require_end(data, at)
    return kept


def pick(
    data: bytes, count: int, base_offset: int, offsets: dict[bytes, int], first_dirty: int, end_offset: int
) -> list[Kept]:
    """The records that are the last of their key, as far as `offsets` knows, which knows those between the two."""
    kept: list[Kept] = []
    at = 0
    try:
        for _ in range(count):
            start = at
            length, at = read_varint(data, at)
            body, end = at, at + length
            _, at = read_varint(data, at + 1)
            delta, at = read_varint(data, at)
            offset = base_offset + delta
            if offset >= end_offset:
                kept.append(_kept(data, start, body, end))
            else:
                key = _key(data, at)
                latest = -1 if key is None else offsets.get(key, -1)
                if key is not None and (offset == latest if offset >= first_dirty else latest < 0):
                    kept.append(_kept(data, start, body, end))
            at = end
    except IndexError:
        raise _cut_short() from None
    _require_end(data, at)
    return kept


def all_records(data: bytes, count: int) -> list[Kept]:
    kept: list[Kept] = []
    at = 0
    try:
        for _ in range(count):
            start = at
            length, at = read_varint(data, at)
            kept.append(_kept(data, start, at, at + length))
            at += length
    except IndexError:
        raise _cut_short() from None
    _require_end(data, at)
    return kept


def shift_timestamps(data: bytes, kept: list[Kept], by_ms: int) -> bytes:
    """The records with timestamps that are relative to a base which is `by_ms` earlier."""
    out: list[bytes] = []
    for start, end, timestamp_delta_ms, _ in kept:
        _, body = read_varint(data, start)
        _, after = read_varint(data, body + 1)
        record = data[body : body + 1] + varint(timestamp_delta_ms + by_ms) + data[after:end]
        out += (varint(len(record)), record)
    return b"".join(out)


def _kept(data: bytes, start: int, body: int, end: int) -> Kept:
    if end > len(data):
        raise _cut_short()
    zigzag = data[body + 1]
    if zigzag < 128:
        timestamp_delta_ms, at = (zigzag >> 1) ^ -(zigzag & 1), body + 2
    else:
        timestamp_delta_ms, at = read_varint(data, body + 1)
    while data[at] > 127:  # the offset
        at += 1
    size = data[at + 1]
    if size > 127:
        length, at = read_varint(data, at + 1)
        at += length
    else:
        at += 2 + (size >> 1 if size != _NULL else 0)
    return Kept(start, end, timestamp_delta_ms, data[at] == _NULL)


def _key(data: bytes, at: int) -> bytes | None:
    length, at = read_varint(data, at)
    if length < 0:
        return None
    key = data[at : at + length]
    return key_hash(key) if length > KEY_BYTES_MAX else key


def _long(data: bytes, at: int) -> tuple[int, int]:
    """The varint there, still with its sign in the lowest bit, and where it ends."""
    value, at = read_varint(data, at)
    return value << 1, at


def _require_end(data: bytes, at: int) -> None:
    if at != len(data):
        raise CorruptBatchError(f"records that end {at - len(data)} bytes from the end of their batch")


def _cut_short() -> CorruptBatchError:
    return CorruptBatchError("a record that ends too early")
