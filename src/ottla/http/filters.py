"""Which messages a live tail shows: by key, by header, by a place in JSON.

key=user-1             the key is this text
header=trace           there is such a header;  header=trace:af01  with this value
json=$.user.ids[0]     the value is JSON and has something there;  json=$.user.ids[0]:7  this, as text or as JSON
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from ottla.http.errors import bad_request
from ottla.protocol.record import Record

STEP = re.compile(r"\.([^.\[\]:]+)|\[(\d{1,9})\]|\[\"([^\"]*)\"\]")
FILTERS_MAX = 20

Filter = Callable[[Record], bool]
_decode = msgspec.json.Decoder().decode


class Nothing:
    """There is nothing at this place."""


def read_filters(keys: Sequence[str], headers: Sequence[str], paths: Sequence[str]) -> Filter:
    """All of them must hold; of several keys one."""
    if len(keys) + len(headers) + len(paths) > FILTERS_MAX:
        raise bad_request(f"A tail has {FILTERS_MAX} filters at most.")
    checks: list[Filter] = []
    if keys:
        wanted = frozenset(key.encode() for key in keys)
        checks.append(lambda record: record.key in wanted)
    checks += [_header_filter(header) for header in headers]
    checks += [_json_filter(path) for path in paths]
    return lambda record: all(check(record) for check in checks)


def _header_filter(text: str) -> Filter:
    name, has_value, value = text.partition(":")
    wanted = value.encode()
    return lambda record: any(
        found == name and (not has_value or content == wanted) for found, content in record.headers
    )


def _json_filter(text: str) -> Filter:
    steps, rest = _steps(text)
    wanted = rest[1:]

    def check(record: Record) -> bool:
        try:
            found = _at(_decode(record.value or b""), steps)
        except msgspec.DecodeError:
            return False
        return found is not Nothing and (not rest or _is(found, wanted))

    return check


def _steps(text: str) -> tuple[list[str | int], str]:
    """The places to go through, and what is left: nothing, or `:` and a value."""
    if not text.startswith("$"):
        raise bad_request(
            f"json is {text[:40]!r}; it must be a path such as $.user.ids[0], or a path, a colon and a value."
        )
    steps: list[str | int] = []
    at = 1
    while (found := STEP.match(text, at)) is not None:
        name, index, quoted = found.groups()
        steps.append(int(index) if index is not None else name if name is not None else quoted)
        at = found.end()
    if text[at:] and text[at] != ":":
        raise bad_request(f"json is {text[:40]!r}; {text[at:][:20]!r} can't be read.")
    return steps, text[at:]


def _at(value: Any, steps: Sequence[str | int]) -> Any:
    for step in steps:
        if isinstance(step, int):
            if not isinstance(value, list) or step >= len(value):
                return Nothing
            value = value[step]
        else:
            if not isinstance(value, dict) or step not in value:
                return Nothing
            value = value[step]
    return value


def _is(found: Any, wanted: str) -> bool:
    if isinstance(found, str):
        return found == wanted
    try:
        return bool(found == _decode(wanted.encode()) and type(found) is not str)
    except msgspec.DecodeError:
        return False
