"""From Python values to bytes and back.

Without a serializer a producer takes what most programs have: bytes as they are, text in UTF-8, and anything else that
JSON can say. A consumer gets bytes unless it is told what they mean, since only the program knows.
"""

import json
from collections.abc import Callable
from typing import Any

from ottla.client.errors import SerializationError

Serializer = Callable[[Any], bytes | None]
Deserializer = Callable[[bytes], Any]


def to_bytes(value: Any) -> bytes | None:
    """The default serializer. None stays None: a record without a value (a tombstone), or without a key."""
    if value is None or type(value) is bytes:
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    return json_bytes(value)


def json_bytes(value: Any) -> bytes:
    """Compact JSON in UTF-8."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def from_json(data: bytes) -> Any:
    return json.loads(data)


def text(data: bytes) -> str:
    return data.decode()


def serialized(serializer: Serializer, value: Any, what: str) -> bytes | None:
    """`serializer(value)`, with whatever it raises turned into a SerializationError that says what failed."""
    try:
        made = serializer(value)
    except Exception as failure:
        raise SerializationError(f"the {what} {value!r:.80} can't be turned into bytes: {failure}") from failure
    if made is not None and not isinstance(made, bytes):
        raise SerializationError(f"the serializer of the {what} returned {type(made).__name__}, not bytes")
    return made
