"""Records as `ottla produce` reads them: a line of text, or a JSON object a line.

The JSON is what `ottla consume --json` prints, so that one can be piped into the other; by hand it may be shorter:

    {"key": "k", "value": "v", "headers": {"trace": "7"}}

A text is UTF-8; bytes that are not come as `key_base64`, `value_base64`. A value that is neither a text nor null is
written as JSON. `"value": null` (or none at all) is a record without a value: in a compacted topic it deletes its key.
"""

import base64
import binascii
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Header = tuple[str, bytes | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class InputRecord:
    """What is to be sent; None leaves a choice to the client."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[Header, ...] = ()
    partition: int | None = None
    timestamp_ms: int | None = None


def line_parser(*, key: str | None = None, separator: str | None = None) -> Callable[[bytes], InputRecord]:
    """For lines without their line break. With a separator, what stands before the first one is the key."""
    if separator is None:
        same_key = None if key is None else key.encode()
        return lambda line: InputRecord(key=same_key, value=line)
    between = separator.encode()

    def split(line: bytes) -> InputRecord:
        before, found, after = line.partition(between)
        if not found:
            raise ValueError(f"there is no separator {separator!r}")
        return InputRecord(key=before, value=after)

    return split


def parse_json(line: bytes) -> InputRecord:
    try:
        document = json.loads(line)
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(document, dict):
        raise ValueError('expected an object like {"key": …, "value": …}')
    return InputRecord(
        key=_bytes_of(document, "key"),
        value=_bytes_of(document, "value"),
        headers=_headers_of(document.get("headers")),
        partition=_int_of(document, "partition"),
        timestamp_ms=_int_of(document, "timestamp_ms"),
    )


def text_or_json(value: Any) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _bytes_of(document: dict[str, Any], name: str) -> bytes | None:
    encoded = document.get(f"{name}_base64")
    if encoded is None:
        return text_or_json(document.get(name))
    try:
        return base64.b64decode(encoded, validate=True)
    except (TypeError, binascii.Error) as error:
        raise ValueError(f"{name}_base64 is not base64: {error}") from None


def _headers_of(headers: Any) -> tuple[Header, ...]:
    if headers is None:
        return ()
    if isinstance(headers, dict):
        return tuple((name, text_or_json(value)) for name, value in headers.items())
    if isinstance(headers, list) and all(
        isinstance(item, dict) and isinstance(item.get("name"), str) for item in headers
    ):
        return tuple((item["name"], _bytes_of(item, "value")) for item in headers)
    raise ValueError('headers must be {"name": "value"} or [{"name": …, "value": …}]')


def _is_named(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(item.get("name"), str)


def _int_of(document: dict[str, Any], name: str) -> int | None:
    value = document.get(name)
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise ValueError(f"{name} must be a whole number")
