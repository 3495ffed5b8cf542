"""Single records: varints and byte strings inside a batch.

    length varint (of what follows), attributes int8, timestamp delta varint, offset delta varint,
    key and value (length varint, -1 for null), header count varint, per header: key and value

Varints here are zigzag: 0, -1, 1, -2 … are 0, 1, 2, 3 …
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from ottla.errors import CorruptBatchError

NO_OFFSET: Final = -1
NO_TIMESTAMP: Final = -1
VARINT_BITS_MAX: Final = 63
"""The shift of the last byte that a 64-bit varint can have."""
RECORD_BYTES_MIN: Final = 7
HEADER_BYTES_MIN: Final = 2
SMALL_VARINTS: Final = tuple(bytes((zigzag,)) for zigzag in range(128))
CONTINUED: Final = tuple(bytes((low | 128,)) for low in range(128))
"""The first byte of a varint with more than one."""

Header = tuple[str, bytes | None]


class Record(NamedTuple):
    key: bytes | None = None
    value: bytes | None = None
    headers: Sequence[Header] = ()
    timestamp_ms: int = NO_TIMESTAMP
    offset: int = NO_OFFSET
    """When a batch is built: NO_OFFSET is the next one."""


def varint(value: int) -> bytes:
    zigzag = value << 1 if value >= 0 else (-value << 1) - 1
    if zigzag < 128:
        return SMALL_VARINTS[zigzag]
    if zigzag < 1 << 14:
        return CONTINUED[zigzag & 127] + SMALL_VARINTS[zigzag >> 7]
    out = bytearray()
    while zigzag > 127:
        out.append(zigzag & 127 | 128)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """The zigzag varint at `at`, and where it ends. IndexError where the data ends first."""
    byte = data[at]
    at += 1
    if byte > 127:
        zigzag, shift = byte & 127, 7
        while True:
            byte = data[at]
            at += 1
            zigzag |= (byte & 127) << shift
            if byte < 128:
                break
            shift += 7
            if shift > VARINT_BITS_MAX:
                raise CorruptBatchError("a varint longer than ten bytes")
        return (zigzag >> 1) ^ -(zigzag & 1), at
    return (byte >> 1) ^ -(byte & 1), at


def encode_record(record: Record, offset_delta: int, timestamp_delta_ms: int) -> bytes:
    key, value = record.key, record.value
    pieces = [b"\0", varint(timestamp_delta_ms), varint(offset_delta)]
    pieces += (b"\1",) if key is None else (varint(len(key)), key)
    pieces += (b"\1",) if value is None else (varint(len(value)), value)
    pieces.append(varint(len(record.headers)))
    for name, content in record.headers:
        encoded = name.encode()
        pieces += (varint(len(encoded)), encoded)
        pieces += (b"\1",) if content is None else (varint(len(content)), content)
    body = b"".join(pieces)
    return varint(len(body)) + body


def encode_plain(key: bytes | None, value: bytes | None, offset_delta: int, timestamp_delta_ms: int) -> bytes:
    """`encode_record` of one without headers, in less time."""
    pieces = (
        b"\0",
        varint(timestamp_delta_ms),
        varint(offset_delta),
        b"\1" if key is None else varint(len(key)),
        key or b"",
        b"\1" if value is None else varint(len(value)),
        value or b"",
        b"\0",
    )
    body = b"".join(pieces)
    return varint(len(body)) + body


def parse_records(
    data: bytes, count: int, *, base_offset: int, base_timestamp_ms: int, appended_ms: int | None
) -> Iterator[Record]:
    """Exactly `count` records, which must be all of `data`. CorruptBatchError where they are not."""
    if not 0 <= count * RECORD_BYTES_MIN <= len(data):
        raise CorruptBatchError(f"{count} records in {len(data)} bytes")
    at = 0
    try:
        for _ in range(count):
            length, at = read_varint(data, at)
            end = at + length
            if length < 0 or end > len(data):
                raise CorruptBatchError(f"a record of {length} bytes where {len(data) - at} are left")
            timestamp_delta_ms, at = read_varint(data, at + 1)
            offset_delta, at = read_varint(data, at)
            key, at = _read_bytes(data, at)
            value, at = _read_bytes(data, at)
            headers, at = read_headers(data, at)
            if at != end:
                raise CorruptBatchError(f"a record whose length is {at - end} bytes off")
            timestamp_ms = base_timestamp_ms + timestamp_delta_ms if appended_ms is None else appended_ms
            yield Record(key, value, headers, timestamp_ms, base_offset + offset_delta)
    except IndexError as error:
        raise CorruptBatchError("a record that ends too early") from error
    if at != len(data):
        raise CorruptBatchError(f"{len(data) - at} bytes after the last record")


def _read_bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    length, at = read_varint(data, at)
    if length < 0:
        if length != -1:
            raise CorruptBatchError(f"a length of {length}")
        return None, at
    end = at + length
    if end > len(data):
        raise CorruptBatchError(f"{length} bytes where {len(data) - at} are left")
    return data[at:end], end


def read_headers(data: bytes, at: int) -> tuple[Sequence[Header], int]:
    """Their count, and all of them; and where they end."""
    count, at = read_varint(data, at)
    if not count:
        return (), at
    if not 0 < count * HEADER_BYTES_MIN <= len(data) - at:
        raise CorruptBatchError(f"{count} headers in {len(data) - at} bytes")
    headers: list[Header] = []
    for _ in range(count):
        name, at = _read_bytes(data, at)
        if name is None:
            raise CorruptBatchError("a header without a name")
        content, at = _read_bytes(data, at)
        try:
            headers.append((name.decode(), content))
        except UnicodeDecodeError as error:
            raise CorruptBatchError("a header whose name is not UTF-8") from error
    return headers, at
