"""Records as people read them: text as text, JSON set out in lines and colours, other bytes in hexadecimal."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from ottla.console.markup import Child, Html, join, link, path, tag
from ottla.console.searching import Seen
from ottla.console.text import count, moment, size

PREVIEW_MAX = 240
BODY_BYTES_MAX = 8 * 1024
"""Of a value in a list; its own page has more."""
HEX_BYTES_MAX = 1024
HEX_LINE = 16
TOKENS = re.compile(r'("(?:[^"\\]|\\.)*")(\s*:)?|\b(?:true|false|null)\b|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?')
NULL = tag("span", "null", class_="null")


def as_text(data: bytes) -> str | None:
    """None: it is not text."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        if error.start < len(data) - 3 or not error.start:  # else a character was cut in two at the end
            return None
        text = data[: error.start].decode()
    return None if any(ord(each) < 32 and each not in "\t\r\n" for each in text) else text


def preview(data: bytes | None) -> Child:
    """One line."""
    if data is None:
        return NULL
    text = as_text(data[: 4 * PREVIEW_MAX])
    if text is None:
        return tag("span", data[:48].hex(" "), class_="hex")
    return " ".join(text.split())[:PREVIEW_MAX]


def pretty(data: bytes | None, *, is_whole: bool = True) -> Html:
    """As much as was kept of it, in a block of its own."""
    if data is None:
        return tag("pre", NULL, class_="value")
    text = as_text(data)
    if text is None:
        return tag("pre", hex_dump(data[:HEX_BYTES_MAX]), class_="value")
    if is_whole and text.lstrip()[:1] in ("{", "["):
        try:
            return tag("pre", coloured(json.dumps(json.loads(text), indent=2, ensure_ascii=False)), class_="value")
        except (ValueError, RecursionError):
            pass  # it only looked like JSON
    return tag("pre", text, class_="value")


def coloured(text: str) -> Html:
    """JSON, with its parts told apart."""
    pieces: list[Child] = []
    at = 0
    for found in TOKENS.finditer(text):
        pieces.append(text[at : found.start()])
        string, colon = found.groups()
        if string is not None:
            pieces += [tag("span", string, class_="j-key" if colon else "j-str"), colon]
        else:
            pieces.append(tag("span", found[0], class_="j-word" if found[0][0] in "tfn" else "j-num"))
        at = found.end()
    return join([*pieces, text[at:]])


def hex_dump(data: bytes) -> str:
    lines = []
    for at in range(0, len(data), HEX_LINE):
        row = data[at : at + HEX_LINE]
        shown = "".join(chr(each) if 32 <= each < 127 else "·" for each in row)
        lines.append(f"{at:06x}  {row.hex(' '):<{HEX_LINE * 3}} {shown}")
    return "\n".join(lines)


def message_rows(records: Iterable[Seen], *, body_bytes_max: int = BODY_BYTES_MAX) -> Html:
    rows = [_row(record, body_bytes_max) for record in records]
    return tag("div", *rows, class_="msgs") if rows else Html("")


def _row(record: Seen, body_bytes_max: int) -> Html:
    summary = tag(
        "summary",
        tag("span", moment(record.timestamp_ms), class_="when"),
        tag("span", f"{record.partition} : {count(record.offset)}", class_="place", title="Partition : offset"),
        tag("span", preview(record.key), class_="keyed"),
        tag("span", preview(record.value), class_="preview"),
        tag("span", size(record.value_bytes), class_="bytes"),
    )
    return tag(
        "details", summary, _body(record, body_bytes_max), class_="msg", data_key=f"{record.partition}-{record.offset}"
    )


def message_path(record: Seen) -> str:
    return path("topics", record.topic, "messages", record.partition, record.offset)


def _body(record: Seen, bytes_max: int) -> Html:
    kept = (record.value or b"")[:bytes_max]
    is_whole = len(kept) == record.value_bytes
    return tag(
        "div",
        tag(
            "div",
            link("Open", message_path(record)),
            link("Read on from here", f"{path('topics', record.topic, 'messages')}?{_from(record)}"),
            tag("button", "Copy value", class_="quiet", data_page="copy", type="button"),
            None if is_whole else tag("span", f"The first {size(len(kept))} of {size(record.value_bytes)}"),
            class_="actions",
        ),
        headers(record.headers),
        pretty(None if record.value is None else kept, is_whole=is_whole),
        class_="msg-body",
    )


def _from(record: Seen) -> str:
    return f"start=offset&offset={record.offset}&partition={record.partition}"


def headers(given: Iterable[tuple[str, bytes | None]]) -> Html:
    entries = [join([tag("dt", name), tag("dd", _header(content))]) for name, content in given]
    return tag("dl", *entries, class_="headers") if entries else Html("")


def _header(content: bytes | None) -> Child:
    if content is None:
        return NULL
    text = as_text(content)
    return content[:HEX_BYTES_MAX].hex(" ") if text is None else text
