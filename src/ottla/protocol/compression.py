"""The five codecs of record batches, and a bound on what a few bytes may become.

Only what must look inside a batch comes here: compaction, tools, the HTTP API. The libraries are imported when they are
first needed, since most brokers never need them and together they cost a tenth of a node's start.
"""

import struct
import zlib
from enum import IntEnum
from typing import Final

from ottla.errors import CorruptBatchError
from ottla.ports import Bytes

XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
XERIAL_HEADER: Final = XERIAL_MAGIC + struct.pack(">ii", 1, 1)
XERIAL_BLOCK_BYTES: Final = 32 * 1024
BLOCK_SIZE: Final = struct.Struct(">i")
GZIP_WINDOW_BITS: Final = 31
"""15 bits of window, and 16 that ask for gzip's header and trailer."""
ZSTD_EXPANSION_MAX: Final = 1 << 15
"""A block of 4 bytes may become 128 KiB."""
ZSTD_INPUT_BYTES_MIN: Final = 64


class Compression(IntEnum):
    """As in the lowest three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(codec: Compression, data: bytes) -> bytes:
    match codec:
        case Compression.NONE:
            return data
        case Compression.GZIP:
            deflate = zlib.compressobj(wbits=GZIP_WINDOW_BITS)
            return deflate.compress(data) + deflate.flush()
        case Compression.SNAPPY:
            return _compress_snappy(data)
        case Compression.LZ4:
            return _compress_lz4(data)
        case Compression.ZSTD:
            return _compress_zstd(data)


def decompress(codec: Compression, data: Bytes, max_bytes: int) -> bytes:
    """What `data` holds. CorruptBatchError if it is damaged, or more than `max_bytes`."""
    match codec:
        case Compression.NONE:
            return _within(bytes(data), max_bytes)
        case Compression.GZIP:
            return _decompress_gzip(data, max_bytes)
        case Compression.SNAPPY:
            return _decompress_snappy(bytes(data), max_bytes)
        case Compression.LZ4:
            return _decompress_lz4(data, max_bytes)
        case Compression.ZSTD:
            return _decompress_zstd(data, max_bytes)


def _within(data: bytes, max_bytes: int) -> bytes:
    if len(data) > max_bytes:
        raise CorruptBatchError("a batch that is larger than it may be when it is uncompressed")
    return data


def _decompress_gzip(data: Bytes, max_bytes: int) -> bytes:
    out: list[bytes] = []
    left, rest = max_bytes, bytes(data)
    while rest:
        inflate = zlib.decompressobj(wbits=GZIP_WINDOW_BITS)
        try:
            piece = inflate.decompress(rest, left + 1)
        except zlib.error as error:
            raise CorruptBatchError(f"gzip: {error}") from error
        left -= len(_within(piece, left))
        out.append(piece)
        if not inflate.eof:
            raise CorruptBatchError("gzip data that ends too early")
        rest = inflate.unused_data
    return b"".join(out)


def _compress_snappy(data: bytes) -> bytes:
    import cramjam

    out = [XERIAL_HEADER]
    for at in range(0, len(data), XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[at : at + XERIAL_BLOCK_BYTES]))
        out += (BLOCK_SIZE.pack(len(block)), block)
    return b"".join(out)


def _decompress_snappy(data: bytes, max_bytes: int) -> bytes:
    """Java's clients frame snappy in blocks, librdkafka's do not."""
    if not data.startswith(XERIAL_MAGIC):
        return _decompress_snappy_block(data, max_bytes)
    out: list[bytes] = []
    at, left = len(XERIAL_HEADER), max_bytes
    while at < len(data):
        block, at = _xerial_block(data, at)
        out.append(_decompress_snappy_block(block, left))
        left -= len(out[-1])
    return b"".join(out)


def _xerial_block(data: bytes, at: int) -> tuple[bytes, int]:
    start = at + BLOCK_SIZE.size
    if start > len(data):
        raise CorruptBatchError("snappy data that ends within a block's size")
    (size_bytes,) = BLOCK_SIZE.unpack_from(data, at)
    if not 0 < size_bytes <= len(data) - start:
        raise CorruptBatchError(f"a snappy block of {size_bytes} bytes where there are {len(data) - start}")
    return data[start : start + size_bytes], start + size_bytes


def _decompress_snappy_block(block: bytes, max_bytes: int) -> bytes:
    import cramjam

    try:
        if cramjam.snappy.decompress_raw_len(block) > max_bytes:
            raise CorruptBatchError("a batch that is larger than it may be when it is uncompressed")
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise CorruptBatchError(f"snappy: {error}") from error


def _compress_lz4(data: bytes) -> bytes:
    import lz4.frame

    # Java's client reads independent blocks only.
    compressed: bytes = lz4.frame.compress(data, block_linked=False, store_size=False)
    return compressed


def _decompress_lz4(data: Bytes, max_bytes: int) -> bytes:
    import lz4.frame

    reader = lz4.frame.LZ4FrameDecompressor()
    try:
        out: bytes = reader.decompress(bytes(data), max_length=max_bytes + 1)
    except (RuntimeError, EOFError) as error:
        raise CorruptBatchError(f"lz4: {error}") from error
    _within(out, max_bytes)
    if not reader.eof:
        raise CorruptBatchError("lz4 data that ends too early")
    return out


def _compress_zstd(data: bytes) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor().compress(data)


def _decompress_zstd(data: Bytes, max_bytes: int) -> bytes:
    """Fed in pieces so small that none can become much more than what is left of the bound.

    A decompressor per call: one that threads share corrupts data.
    """
    import zstandard

    reader = zstandard.ZstdDecompressor().decompressobj()
    out: list[bytes] = []
    at, left, view = 0, max_bytes, memoryview(data)
    while at < len(view) and not reader.eof:
        end = at + max(ZSTD_INPUT_BYTES_MIN, left // ZSTD_EXPANSION_MAX)
        try:
            piece = reader.decompress(bytes(view[at:end]))
        except zstandard.ZstdError as error:
            raise CorruptBatchError(f"zstd: {error}") from error
        left -= len(_within(piece, left))
        out.append(piece)
        at = end
    if not reader.eof:
        raise CorruptBatchError("zstd data that ends too early")
    return b"".join(out)
