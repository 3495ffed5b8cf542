"""Heads of requests: whom they are for, and what must be known before the body has come.

A client that keeps its connection sends the same head again and again, so a head that was read once is looked up from
then on. Only the hot routes are told apart here, and those that machines ask again and again; and only where they are
spelled plainly. Every other head is for the framework. Header fields are checked by httptools, which the framework's
server uses too: what one of the two takes for the end of a request is the end for the other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import parse_qsl

import httptools

GENERAL: Final = 0
STREAM: Final = 1
"""For the framework too, but it may last."""
PRODUCE: Final = 2
CONSUME: Final = 3
HEALTH: Final = 4
METRICS: Final = 5

KNOWN_MAX = 512
KNOWN_BYTES_MAX = 1024
"""Longer ones, with cookies and the like, are read anew each time."""

_HOT = re.compile(
    rb"(?:POST /topics/([a-zA-Z0-9._-]{1,249})/produce"
    rb"|GET /topics/([a-zA-Z0-9._-]{1,249})/partitions/(\d{1,10})/consume)"
    rb"(?:\?([!-~]*))? HTTP/1\.1"
)
_STREAM = re.compile(rb"GET /topics/[^/?]+/stream[? ]")
_DIGITS = re.compile(rb"\d{1,18}")
_NO_QUERY: Mapping[str, str] = {}


class Line(NamedTuple):
    """The first line of a head."""

    kind: int
    topic: str = ""
    partition: str = ""
    query: Mapping[str, str] = _NO_QUERY


_PROBES = {b"GET /health HTTP/1.1": Line(HEALTH), b"GET /metrics HTTP/1.1": Line(METRICS)}


class Fields(NamedTuple):
    """The rest of it."""

    is_plain: bool
    """A body of known length, and no more to it."""
    length: int = 0
    content_type: str = ""
    keeps_alive: bool = True


class Heads:
    """Those that were read lately."""

    def __init__(self) -> None:
        self._lines: dict[bytes, Line] = {}
        self._fields: dict[bytes, Fields] = {}

    def line(self, text: bytes) -> Line:
        found = self._lines.get(text)
        if found is None:
            found = _read_line(text)
            if found.kind == PRODUCE and len(text) <= KNOWN_BYTES_MAX:
                _keep(self._lines, text, found)
        return found

    def fields(self, text: bytes) -> Fields:
        """Of the part between the first line and the empty one, beginning with the end of the first line."""
        found = self._fields.get(text)
        if found is None:
            found = _read_fields(text)
            if len(text) <= KNOWN_BYTES_MAX:
                _keep(self._fields, text, found)
        return found


def _keep(known: dict[bytes, Line] | dict[bytes, Fields], text: bytes, found: Line | Fields) -> None:
    if len(known) >= KNOWN_MAX:
        known.clear()
    known[text] = found  # type: ignore[assignment]  # each caller has its own kind


def _read_line(text: bytes) -> Line:
    if text in _PROBES:
        return _PROBES[text]
    hot = _HOT.fullmatch(text)
    if hot is None:
        return Line(STREAM if _STREAM.match(text) else GENERAL)
    written, read, partition, query = hot.groups()
    asked = dict(parse_qsl(query.decode(), keep_blank_values=True)) if query else _NO_QUERY
    if written is not None:
        return Line(PRODUCE, written.decode(), "", asked)
    return Line(CONSUME, read.decode(), partition.decode(), asked)


class _Collected:
    def __init__(self) -> None:
        self.headers: list[tuple[bytes, bytes]] = []

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))


_ODD = frozenset((b"transfer-encoding", b"expect", b"upgrade"))


def _read_fields(text: bytes) -> Fields:
    collected = _Collected()
    parser = httptools.HttpRequestParser(collected)
    try:
        parser.feed_data(b"POST / HTTP/1.1" + text + b"\r\n\r\n")
    except (httptools.HttpParserError, httptools.HttpParserUpgrade):
        return Fields(is_plain=False)
    headers = dict(collected.headers)
    length = headers.get(b"content-length", b"0")
    if not _ODD.isdisjoint(headers) or not _DIGITS.fullmatch(length):
        return Fields(is_plain=False)
    content_type = headers.get(b"content-type", b"").decode("latin-1").lower()
    return Fields(True, int(length), content_type, parser.should_keep_alive())
