"""The types of the wire: what a table's annotations mean, and variable-length integers.

To a type checker `int32` is an `int`; to the codec it is four bytes, big endian. Strings, byte strings, booleans and
floats are annotated as what they are in Python.
"""

from collections.abc import Sequence
from typing import Annotated, NamedTuple, NoReturn

from ottla.errors import ProtocolError
from ottla.ports import Bytes, Sendable


class Fixed(NamedTuple):
    """A value of fixed size, by its letter in the `struct` module."""

    letter: str
    size_bytes: int
    zero: object


class Text(NamedTuple):
    """UTF-8 after its length."""


class ByteString(NamedTuple):
    """Bytes after their length, copied when they are read."""


class RecordData(NamedTuple):
    """Record batches: too much to copy, so views are read, and pieces are written without being joined."""


class Struct(NamedTuple):
    """Another message, field by field."""

    cls: type


class Array(NamedTuple):
    """Elements of one type after their number."""

    of: "WireType"


WireType = Fixed | Text | ByteString | RecordData | Struct | Array


int8 = Annotated[int, Fixed("b", 1, 0)]
int16 = Annotated[int, Fixed("h", 2, 0)]
int32 = Annotated[int, Fixed("i", 4, 0)]
int64 = Annotated[int, Fixed("q", 8, 0)]
uint16 = Annotated[int, Fixed("H", 2, 0)]
Uuid = Annotated[bytes, Fixed("16s", 16, bytes(16))]
Records = Annotated[Bytes, RecordData()]
"""Decoded as a view into the buffer that was given, valid as long as that buffer is not reused."""
RecordPieces = Annotated[Sendable | Sequence[Bytes], RecordData()]
"""The same, where an answer is put together from the pieces that a log returns."""

BOOL = Fixed("?", 1, False)
FLOAT64 = Fixed("d", 8, 0.0)

INT32_MAX = 2**31 - 1
INT32_MIN = -(2**31)
"""As a set of operations that a client may do: not asked for."""

NO_UUID = bytes(16)

UVARINT_BYTES_MAX = 5
ONE_BYTE_UVARINTS = tuple(bytes((value,)) for value in range(128))


def cut_short() -> NoReturn:
    raise ProtocolError("a length goes beyond the bytes that are there")


def unexpected_null() -> NoReturn:
    raise ProtocolError("null, or a negative length, where there must be a value")


def too_many() -> NoReturn:
    raise ProtocolError("more elements than a message may have")


def bad_marker() -> NoReturn:
    raise ProtocolError("a value that is neither there nor null")


def bad_tag_size() -> NoReturn:
    raise ProtocolError("a tagged field whose size is not that of its value")


def read_uvarint(buffer: memoryview, at: int) -> tuple[int, int]:
    """The unsigned varint at `at`, and where it ends. IndexError where the buffer ends first."""
    first = buffer[at]
    if first < 128:
        return first, at + 1
    return read_rest_of_uvarint(buffer, at + 1, first)


def read_rest_of_uvarint(buffer: Bytes, at: int, first: int) -> tuple[int, int]:
    """The rest of a varint whose first byte, read already, says that there is more."""
    value, shift = first & 127, 7
    for position in range(at, at + UVARINT_BYTES_MAX - 1):
        byte = buffer[position]
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position + 1
        shift += 7
    raise ProtocolError("a varint longer than five bytes")


def uvarint(value: int) -> bytes:
    if value < 128:
        return ONE_BYTE_UVARINTS[value]
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def skip_tagged_fields(buffer: memoryview, at: int) -> int:
    """Step over tagged fields that we do not know: a newer peer may send them."""
    try:
        count, at = read_uvarint(buffer, at)
        for _ in range(count):
            _, at = read_uvarint(buffer, at)
            size_bytes, at = read_uvarint(buffer, at)
            at += size_bytes
    except IndexError:
        cut_short()
    if at > len(buffer):
        cut_short()
    return at
