"""The loops over single records, compiled: raw bytes to columns, and columns to raw bytes.

Nothing here knows Python objects: arrays of numbers in, arrays of numbers out, errors as negative results. Every length
is checked against the bytes that are left before it is used: what a broker sends may be damaged.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from pyspark_ottla.compiling import compiled, copy_bytes

DAMAGED: Final = -1


@compiled
def read_varint(data: np.ndarray, at: int, end: int) -> tuple[Any, int]:
    """The zigzag varint at `at` and where it ends, which is -1 if it doesn't end in time."""
    result = np.uint64(0)
    shift = np.uint64(0)
    while at < end and shift < np.uint64(70):
        byte = data[at]
        at += 1
        result |= np.uint64(byte & 127) << shift
        if byte < 128:
            return np.int64(result >> np.uint64(1)) ^ -np.int64(result & np.uint64(1)), at
        shift += np.uint64(7)
    return 0, -1


@compiled
def decode_records(
    data: np.ndarray,
    count: int,
    base_offset: int,
    base_timestamp_ms: int,
    appended_ms: int,
    first_offset: int,
    end_offset: int,
    row: int,
    offsets: np.ndarray,
    timestamps_us: np.ndarray,
    key_ends: np.ndarray,
    key_valid: np.ndarray,
    keys: np.ndarray,
    value_ends: np.ndarray,
    value_valid: np.ndarray,
    values: np.ndarray,
    headers_at: np.ndarray,
    header_counts: np.ndarray,
) -> int:
    """Append the records of one batch that lie in [first_offset, end_offset) from row `row` on; the row after them.

    `appended_ms` replaces the records' own timestamps unless it is -1. `key_ends[row]` is where the last key ended.
    """
    at, size = 0, len(data)
    key_end, value_end = key_ends[row], value_ends[row]
    for _ in range(count):
        length, at = read_varint(data, at, size)
        if at < 0 or length < 0 or length > size - at:
            return DAMAGED
        end = at + length
        timestamp_delta_ms, at = read_varint(data, at + 1, end)
        if at < 0:
            return DAMAGED
        offset_delta, at = read_varint(data, at, end)
        if at < 0:
            return DAMAGED
        key_length, at = read_varint(data, at, end)
        if at < 0 or key_length < -1 or key_length > end - at:
            return DAMAGED
        key_at = at
        at += max(key_length, 0)
        value_length, at = read_varint(data, at, end)
        if at < 0 or value_length < -1 or value_length > end - at:
            return DAMAGED
        value_at = at
        at += max(value_length, 0)
        header_count, headers_start = read_varint(data, at, end)
        if headers_start < 0 or header_count < 0 or header_count * 2 > end - headers_start:
            return DAMAGED
        if header_count == 0 and headers_start != end:
            return DAMAGED
        at = end
        offset = base_offset + offset_delta
        if offset < first_offset or offset >= end_offset:
            continue
        offsets[row] = offset
        if appended_ms >= 0:
            timestamps_us[row] = appended_ms * 1000
        else:
            timestamps_us[row] = (base_timestamp_ms + timestamp_delta_ms) * 1000
        key_valid[row] = key_length >= 0
        if key_length > 0:
            copy_bytes(keys, key_end, data, key_at, key_length)
            key_end += key_length
        value_valid[row] = value_length >= 0
        if value_length > 0:
            copy_bytes(values, value_end, data, value_at, value_length)
            value_end += value_length
        headers_at[row] = headers_start
        header_counts[row] = header_count
        row += 1
        key_ends[row] = key_end
        value_ends[row] = value_end
    return row if at == size else DAMAGED


@compiled
def decode_headers(
    data: np.ndarray,
    from_row: int,
    to_row: int,
    headers_at: np.ndarray,
    header_counts: np.ndarray,
    header: int,
    name_ends: np.ndarray,
    names: np.ndarray,
    content_ends: np.ndarray,
    content_valid: np.ndarray,
    contents: np.ndarray,
) -> int:
    """Append the headers of rows of one batch from header number `header` on; the number after the last."""
    size = len(data)
    name_end, content_end = name_ends[header], content_ends[header]
    for row in range(from_row, to_row):
        at = headers_at[row]
        for _ in range(header_counts[row]):
            length, at = read_varint(data, at, size)
            if at < 0 or length < 0 or length > size - at:
                return DAMAGED
            copy_bytes(names, name_end, data, at, length)
            name_end += length
            at += length
            length, at = read_varint(data, at, size)
            if at < 0 or length < -1 or length > size - at:
                return DAMAGED
            content_valid[header] = length >= 0
            if length > 0:
                copy_bytes(contents, content_end, data, at, length)
                content_end += length
                at += length
            header += 1
            name_ends[header] = name_end
            content_ends[header] = content_end
    return header


@compiled
def _put_varint(out: np.ndarray, at: int, value: int) -> int:
    zigzag = np.uint64((value << 1) ^ (value >> 63))
    while zigzag > np.uint64(127):
        out[at] = np.uint8((zigzag & np.uint64(127)) | np.uint64(128))
        zigzag >>= np.uint64(7)
        at += 1
    out[at] = np.uint8(zigzag)
    return at + 1


@compiled
def _varint_size(value: int) -> int:
    zigzag = np.uint64((value << 1) ^ (value >> 63))
    size = 1
    while zigzag > np.uint64(127):
        zigzag >>= np.uint64(7)
        size += 1
    return size


@compiled
def _blob_size(length: int, valid: int) -> int:
    return _varint_size(length) + length if valid else 1


@compiled
def _put_blob(out: np.ndarray, at: int, data: np.ndarray, start: int, length: int, valid: int) -> int:
    if not valid:
        out[at] = 1
        return at + 1
    at = _put_varint(out, at, length)
    copy_bytes(out, at, data, start, length)
    return at + length


@compiled
def encode_records(
    rows: np.ndarray,
    bytes_max: int,
    key_ends: np.ndarray,
    key_valid: np.ndarray,
    keys: np.ndarray,
    value_ends: np.ndarray,
    value_valid: np.ndarray,
    values: np.ndarray,
    header_ends: np.ndarray,
    name_ends: np.ndarray,
    names: np.ndarray,
    content_ends: np.ndarray,
    content_valid: np.ndarray,
    contents: np.ndarray,
    out: np.ndarray,
) -> tuple[int, int]:
    """Write records of `rows` to `out`, until the next would pass `bytes_max`: how many, and how many bytes.

    The first is written in any case; `out` must have room for it. Offsets are 0, 1, 2 …, and all have the timestamp
    of the batch.
    """
    at = 0
    for number in range(len(rows)):
        row = rows[number]
        key_length = key_ends[row + 1] - key_ends[row]
        value_length = value_ends[row + 1] - value_ends[row]
        first_header, end_header = header_ends[row], header_ends[row + 1]
        length = 2 + _varint_size(number)
        length += _blob_size(key_length, key_valid[row]) + _blob_size(value_length, value_valid[row])
        length += _varint_size(end_header - first_header)
        for header in range(first_header, end_header):
            length += _blob_size(name_ends[header + 1] - name_ends[header], 1)
            length += _blob_size(content_ends[header + 1] - content_ends[header], content_valid[header])
        end = at + _varint_size(length) + length
        if end > bytes_max and number > 0:
            return number, at
        at = _put_varint(out, at, length)
        out[at] = 0
        out[at + 1] = 0
        at = _put_varint(out, at + 2, number)
        at = _put_blob(out, at, keys, key_ends[row], key_length, key_valid[row])
        at = _put_blob(out, at, values, value_ends[row], value_length, value_valid[row])
        at = _put_varint(out, at, end_header - first_header)
        for header in range(first_header, end_header):
            at = _put_blob(out, at, names, name_ends[header], name_ends[header + 1] - name_ends[header], 1)
            size = content_ends[header + 1] - content_ends[header]
            at = _put_blob(out, at, contents, content_ends[header], size, content_valid[header])
    return len(rows), at


@compiled
def partitions_of_keys(ends: np.ndarray, valid: np.ndarray, keys: np.ndarray, count: int, out: np.ndarray) -> None:
    """Where Kafka's own clients put each key: MurmurHash2 (Austin Appleby) with their seed. Rows without one: -1."""
    m = np.uint32(0x5BD1E995)
    for row in range(len(out)):
        if not valid[row]:
            out[row] = -1
            continue
        at, end = ends[row], ends[row + 1]
        hashed = np.uint32(0x9747B28C) ^ np.uint32(end - at)
        while end - at >= 4:
            word = np.uint32(keys[at]) | np.uint32(keys[at + 1]) << np.uint32(8)
            word |= np.uint32(keys[at + 2]) << np.uint32(16) | np.uint32(keys[at + 3]) << np.uint32(24)
            mixed = np.uint32(word * m)
            mixed ^= mixed >> np.uint32(24)
            hashed = np.uint32(hashed * m) ^ np.uint32(mixed * m)
            at += 4
        if end > at:
            tail = np.uint32(0)
            for index in range(end - at):
                tail |= np.uint32(keys[at + index]) << np.uint32(8 * index)
            hashed = np.uint32((hashed ^ tail) * m)
        hashed = np.uint32((hashed ^ (hashed >> np.uint32(13))) * m)
        hashed ^= hashed >> np.uint32(15)
        out[row] = np.int64(hashed & np.uint32(0x7FFFFFFF)) % count
