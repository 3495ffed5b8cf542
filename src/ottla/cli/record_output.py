"""Records as `ottla consume` prints them: text, JSON, a hex dump, or a template of one's own.

A formatter takes a record and returns the bytes to print, line break included. Text is printed as the bytes it is, so
that a pipe gets what was produced; only on a terminal are control characters escaped, since a record may hold anything.
"""

import base64
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ottla.cli.times import moment_text
from ottla.observability.logs import printable
from ottla.types import TopicPartition

Formatter = Callable[["OutputRecord"], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputRecord:
    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()

    @property
    def at(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


def json_formatter(record: OutputRecord) -> bytes:
    document = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        **json_bytes("key", record.key),
        **json_bytes("value", record.value),
        "headers": [{"name": name, **json_bytes("value", value)} for name, value in record.headers],
    }
    return json.dumps(document, ensure_ascii=False).encode() + b"\n"


def json_bytes(name: str, data: bytes | None) -> dict[str, str | None]:
    """As text where it is UTF-8, in base64 under another name where it is not: nothing is lost or guessed."""
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}


def text_formatter(*, keys: bool, headers: bool, timestamps: bool, offsets: bool) -> Formatter:
    """The value, after a tab-separated column for each thing asked for."""
    columns: list[Callable[[OutputRecord], bytes]] = []
    if timestamps:
        columns.append(_timestamp)
    if offsets:
        columns.append(_place)
    if keys:
        columns.append(lambda record: _shown(record.key))
    if headers:
        columns.append(_headers)
    columns.append(lambda record: _shown(record.value))
    return lambda record: b"\t".join([column(record) for column in columns]) + b"\n"


def hex_formatter(record: OutputRecord) -> bytes:
    """A line about the record, then its key and value, sixteen bytes a line."""
    lines = [
        b"%s %s key=%s"
        % (_place(record), _timestamp(record), b"null" if record.key is None else record.key.hex().encode())
    ]
    data = record.value or b""
    for at in range(0, len(data), 16):
        row = data[at : at + 16]
        seen = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"  {at:08x}  {row.hex(' '):<47}  {seen}".encode())
    return b"\n".join(lines) + b"\n"


def for_terminal(formatter: Formatter) -> Formatter:
    """The same, but what could move the cursor or change the terminal is shown instead of done."""

    def formatted(record: OutputRecord) -> bytes:
        text = formatter(record).decode(errors="backslashreplace")
        return "\n".join(_printable_columns(line) for line in text.split("\n")).encode()

    return formatted


def _printable_columns(line: str) -> str:
    return "\t".join(printable(column) for column in line.split("\t"))


def _shown(data: bytes | None) -> bytes:
    return b"null" if data is None else data


def _place(record: OutputRecord) -> bytes:
    return b"%s-%d:%d" % (record.topic.encode(), record.partition, record.offset)


def _timestamp(record: OutputRecord) -> bytes:
    return b"-" if record.timestamp_ms is None else moment_text(record.timestamp_ms).encode()


def _headers(record: OutputRecord) -> bytes:
    return b",".join(name.encode() + b"=" + _shown(value) for name, value in record.headers)


_FIELDS: dict[str, Callable[[OutputRecord], bytes]] = {
    "topic": lambda record: record.topic.encode(),
    "partition": lambda record: b"%d" % record.partition,
    "offset": lambda record: b"%d" % record.offset,
    "timestamp": _timestamp,
    "timestamp_ms": lambda record: b"%d" % (-1 if record.timestamp_ms is None else record.timestamp_ms),
    "key": lambda record: _shown(record.key),
    "value": lambda record: _shown(record.value),
    "headers": _headers,
    "size": lambda record: b"%d" % (len(record.key or b"") + len(record.value or b"")),
}
TEMPLATE_FIELDS = tuple(_FIELDS)
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_ESCAPES = {r"\n": "\n", r"\t": "\t", r"\0": "\0", r"\\": "\\"}


def template_formatter(template: str) -> Formatter:
    r"""`{partition}:{offset} {key} {value}`, with \n, \t and \0 for what a shell makes hard to type.

    A line break is added unless the template ends with one of those itself. ValueError for an unknown field.
    """
    pieces = _PLACEHOLDER.split(re.sub(r"\\[nt0\\]", lambda found: _ESCAPES[found.group()], template))
    unknown = [name for name in pieces[1::2] if name not in _FIELDS]
    if unknown:
        raise ValueError(f"{{{unknown[0]}}} is not a field: there are {', '.join(TEMPLATE_FIELDS)}")
    texts = [piece.encode() for piece in pieces[::2]]
    fields = [_FIELDS[name] for name in pieces[1::2]]
    end = b"" if re.search(r"\\[n0]$", template) else b"\n"

    def formatted(record: OutputRecord) -> bytes:
        values = [field(record) for field in fields]
        return texts[0] + b"".join(value + text for value, text in zip(values, texts[1:], strict=True)) + end

    return formatted
