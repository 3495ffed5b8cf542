"""Loops over the bytes of values, compiled: framing of JSON, and Avro to columns.

JSON itself is parsed by Arrow; what is here makes sure that each value is one line to it and one row of it. Avro is
decoded by a small program that `avro` makes of the schema: one instruction per field, run once per value.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from pyspark_ottla.compiling import compiled
from pyspark_ottla.kernels import read_varint

__all__ = [
    "ARRAY", "ARRAY_END", "BOOL", "BYTES", "DOUBLE", "END", "ENUM", "FIXED", "FLOAT", "LONG", "NULLABLE", "STRING",
    "STRUCT", "decimals", "decode_avro", "frame_json", "gather", "invalid_texts",
]  # fmt: skip

JSON_DEPTH_MAX: Final = 200
"""Deeper values are taken for malformed: the parser is recursive."""
END, LONG, ENUM, STRING, BYTES, NULLABLE, ARRAY, ARRAY_END, FIXED, BOOL, FLOAT, DOUBLE, STRUCT = range(13)
"""Instructions: (what, column, argument, where to go on, last column). Up to ARRAY_END they begin with a number."""
LOOP_DEPTH_MAX: Final = 32
CONFLUENT_BYTES: Final = 5
INT_MIN, INT_MAX = -(2**31), 2**31 - 1


@compiled
def _is_text(data: np.ndarray, at: int, end: int) -> bool:
    """Is this UTF-8?"""
    while at < end:
        first = data[at]
        at += 1
        if first < 0x80:
            continue
        if first < 0xC2 or first > 0xF4:
            return False
        more = 1 if first < 0xE0 else 2 if first < 0xF0 else 3
        if at + more > end:
            return False
        second = data[at]
        low = 0xA0 if first == 0xE0 else 0x90 if first == 0xF0 else 0x80
        high = 0x9F if first == 0xED else 0x8F if first == 0xF4 else 0xBF
        if second < low or second > high:
            return False
        for index in range(1, more):
            if data[at + index] < 0x80 or data[at + index] > 0xBF:
                return False
        at += more
    return True


@compiled
def _is_space(byte: int) -> bool:
    return byte == 32 or byte == 9 or byte == 10 or byte == 13


@compiled
def _is_one_object(data: np.ndarray, at: int, end: int) -> bool:
    """Do the braces open at the beginning and close at the end, and not before? What is inside is not looked at."""
    while at < end and _is_space(data[at]):
        at += 1
    while end > at and _is_space(data[end - 1]):
        end -= 1
    if end - at < 2 or data[at] != 123:
        return False
    depth = 0
    in_text = False
    while at < end:
        byte = data[at]
        at += 1
        if in_text:
            if byte == 92:
                at += 1
            elif byte == 34:
                in_text = False
        elif byte == 34:
            in_text = True
        elif byte == 123 or byte == 91:
            depth += 1
            if depth > JSON_DEPTH_MAX:
                return False
        elif byte == 125 or byte == 93:
            depth -= 1
            if depth <= 0:
                return depth == 0 and at == end and byte == 125
    return False


@compiled
def frame_json(
    ends: np.ndarray, valid: np.ndarray, data: np.ndarray, out: np.ndarray, out_ends: np.ndarray, bad: np.ndarray
) -> None:
    """One line per value in `out`, {} for what is null or not one JSON object; the second is `bad`."""
    to = 0
    out_ends[0] = 0
    for row in range(len(bad)):
        at, end = ends[row], ends[row + 1]
        bad[row] = valid[row] and not (_is_one_object(data, at, end) and _is_text(data, at, end))
        if bad[row] or not valid[row]:
            out[to] = 123
            out[to + 1] = 125
            to += 2
        else:
            for index in range(at, end):
                out[to + index - at] = data[index]
            to += end - at
        out[to] = 10
        to += 1
        out_ends[row + 1] = to


@compiled
def invalid_texts(ends: np.ndarray, valid: np.ndarray, data: np.ndarray, bad: np.ndarray) -> None:
    for row in range(len(bad)):
        bad[row] = valid[row] and not _is_text(data, ends[row], ends[row + 1])


@compiled
def _append_nulls(
    first: int, last: int, owners: np.ndarray, bases: np.ndarray, counts: np.ndarray, lengths: np.ndarray
) -> None:
    """To the columns `first` to `last` that have one entry each for an entry of the first."""
    for column in range(first, last + 1):
        if owners[column] == owners[first]:
            lengths[bases[column] + counts[column]] = -1
            counts[column] += 1


@compiled
def _read_bits(data: np.ndarray, at: int, size: int) -> Any:
    bits = np.uint64(0)
    for index in range(size):
        bits |= np.uint64(data[at + index]) << np.uint64(8 * index)
    return np.int64(bits)


@compiled
def _read_scalar(op: int, argument: int, number: int, data: np.ndarray, at: int, end: int) -> tuple[Any, int, int]:
    """A number, or where a byte string begins and how long it is; and where it ends, -1 if it is malformed.

    `number`: what the instruction began with.
    """
    if op == STRING or op == BYTES or op == FIXED:  # noqa: SIM109 - `in` is slow in compiled code
        length = argument if op == FIXED else number
        if length < 0 or length > end - at or (op == BYTES and 0 < argument < length):
            return 0, 0, -1
        if op == STRING and not _is_text(data, at, at + length):
            return 0, 0, -1
        return at, length, at + length
    if op >= BOOL and op <= DOUBLE:
        size = 1 if op == BOOL else 4 if op == FLOAT else 8
        if size > end - at:
            return 0, 0, -1
        bits = _read_bits(data, at, size)
        return bits, 0, -1 if op == BOOL and bits > 1 else at + size
    if op == ENUM and (number < 0 or number >= argument):
        return 0, 0, -1
    if op == LONG and argument == 32 and (number < INT_MIN or number > INT_MAX):
        return 0, 0, -1
    return number, 0, at


@compiled
def _block_size(number: int, data: np.ndarray, at: int, end: int) -> tuple[int, int]:
    """How many items follow, and where. If negative, the size of the block in bytes comes first."""
    if number < 0:
        number = -number
        _, at = read_varint(data, at, end)
    if at < 0 or number < 0 or number > end - at:  # an item has at least one byte
        return 0, -1
    return number, at


@compiled
def _decode_value(
    data: np.ndarray,
    at: int,
    end: int,
    program: np.ndarray,
    owners: np.ndarray,
    bases: np.ndarray,
    counts: np.ndarray,
    numbers: np.ndarray,
    lengths: np.ndarray,
    loops: np.ndarray,
) -> bool:
    """Add one value to the columns. False: it is malformed, and the columns may hold a part of it."""
    pc = depth = 0
    while True:
        op, column, argument, target = program[pc, 0], program[pc, 1], program[pc, 2], program[pc, 3]
        pc += 1
        if op == END:
            return at == end
        if op == ARRAY_END:
            loops[depth - 1, 0] -= 1
            if loops[depth - 1, 0] > 0:
                pc = target
                continue
        number = 0
        if op <= ARRAY_END:
            number, at = read_varint(data, at, end)
            if at < 0:
                return False
        if op == NULLABLE:
            if number < 0 or number > 1:
                return False
            if number == argument:
                _append_nulls(column, program[pc - 1, 4], owners, bases, counts, lengths)
                pc = target
            continue
        if op == ARRAY or op == ARRAY_END:  # noqa: SIM109 - `in` is slow in compiled code
            number, at = _block_size(number, data, at, end)
            if at < 0 or (op == ARRAY and depth == LOOP_DEPTH_MAX):
                return False
            if op == ARRAY:
                loops[depth, 1] = 0
                depth += 1
            loops[depth - 1, 0] = number
            loops[depth - 1, 1] += number
            if number > 0:
                pc = target if op == ARRAY_END else pc
                continue
            depth -= 1
            lengths[bases[column] + counts[column]] = loops[depth, 1]
            counts[column] += 1
            pc = target if op == ARRAY else pc
            continue
        number, length, at = _read_scalar(op, argument, number, data, at, end)
        if at < 0:
            return False
        numbers[bases[column] + counts[column]] = number
        lengths[bases[column] + counts[column]] = length
        counts[column] += 1


@compiled
def decode_avro(
    ends: np.ndarray,
    valid: np.ndarray,
    data: np.ndarray,
    framed: bool,
    schema_id: int,
    program: np.ndarray,
    owners: np.ndarray,
    bases: np.ndarray,
    counts: np.ndarray,
    numbers: np.ndarray,
    lengths: np.ndarray,
    bad: np.ndarray,
) -> None:
    """Columns of all values. Those that are null or malformed are null; the second are `bad`.

    There is room in a column for one entry per value, or per byte if it is within an array: no item has fewer.

    `framed`: each begins with 0 and the number of its schema, which must be `schema_id` unless that is negative.
    """
    loops = np.zeros((LOOP_DEPTH_MAX + 1, 2), np.int64)
    before = np.zeros(len(counts), np.int64)
    for row in range(len(bad)):
        at, end = ends[row], ends[row + 1]
        before[:] = counts
        fits = valid[row] != 0
        if fits and framed:
            fits = end - at >= CONFLUENT_BYTES and data[at] == 0
            if fits and schema_id >= 0:
                for index in range(1, CONFLUENT_BYTES):
                    fits = fits and data[at + index] == schema_id >> 8 * (CONFLUENT_BYTES - 1 - index) & 255
            at += CONFLUENT_BYTES
        if fits:
            fits = _decode_value(data, at, end, program, owners, bases, counts, numbers, lengths, loops)
        if not fits:
            counts[:] = before
            _append_nulls(0, len(counts) - 1, owners, bases, counts, lengths)
        bad[row] = valid[row] and not fits


@compiled
def gather(data: np.ndarray, starts: np.ndarray, lengths: np.ndarray, ends: np.ndarray, out: np.ndarray) -> None:
    """Byte strings one after the other; a negative length is none."""
    to = 0
    ends[0] = 0
    for row in range(len(lengths)):
        for index in range(lengths[row]):
            out[to + index] = data[starts[row] + index]
        to += max(lengths[row], 0)
        ends[row + 1] = to


@compiled
def decimals(data: np.ndarray, starts: np.ndarray, lengths: np.ndarray, out: np.ndarray) -> None:
    """Big-endian numbers of at most 16 bytes to 128 bits, two words each, the low one first."""
    for row in range(len(lengths)):
        low = high = np.uint64(0)
        if lengths[row] > 0 and data[starts[row]] >= 128:
            low = high = np.uint64(0xFFFFFFFFFFFFFFFF)
        for index in range(lengths[row]):
            high = (high << np.uint64(8)) | (low >> np.uint64(56))
            low = (low << np.uint64(8)) | np.uint64(data[starts[row] + index])
        out[row, 0] = np.int64(low)
        out[row, 1] = np.int64(high)
