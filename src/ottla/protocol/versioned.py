"""Messages that are kept in byte strings: before the message stands what is needed to read it.

Group and transaction records, transaction markers and what consumers tell each other begin with an int16, the version.
Records of the metadata log begin with three varints: a frame version, the record's key and its version.
"""

import struct
from collections.abc import Mapping
from typing import Final, TypeVar

from ottla.errors import ProtocolError
from ottla.ports import Bytes
from ottla.protocol.codec import codec_for, decode
from ottla.protocol.primitives import read_uvarint, uvarint
from ottla.protocol.schema import Data

VERSION: Final = struct.Struct(">h")
METADATA_FRAME_VERSION: Final = 1

AnyData = TypeVar("AnyData", bound=Data)


def encode_with_version(message: Data, version: int) -> bytes:
    out: list[Bytes] = [VERSION.pack(version)]
    codec_for(type(message), version).encode(message, out)
    return b"".join(out)


def version_of(buffer: Bytes) -> int:
    """The version that a byte string begins with."""
    if len(buffer) < VERSION.size:
        raise ProtocolError(f"{len(buffer)} bytes are too few for a version")
    version: int = VERSION.unpack_from(buffer)[0]
    return version


def decode_with_version(cls: type[AnyData], buffer: Bytes) -> AnyData:
    return decode(cls, version_of(buffer), memoryview(buffer)[VERSION.size :])


def encode_metadata_record(record: Data, version: int) -> bytes:
    out: list[Bytes] = [uvarint(METADATA_FRAME_VERSION) + uvarint(record.api_key) + uvarint(version)]
    codec_for(type(record), version).encode(record, out)
    return b"".join(out)


def decode_metadata_record(kinds: Mapping[int, type[Data]], buffer: Bytes) -> Data:
    """The record that `buffer` holds; `kinds` are the classes that it may have, by their key."""
    view = memoryview(buffer)
    try:
        frame_version, at = read_uvarint(view, 0)
        key, at = read_uvarint(view, at)
        version, at = read_uvarint(view, at)
    except IndexError as error:
        raise ProtocolError("a metadata record that ends within its header") from error
    if frame_version != METADATA_FRAME_VERSION or key not in kinds:
        raise ProtocolError(f"a metadata record of frame version {frame_version} and key {key}")
    return decode(kinds[key], version, view[at:])
