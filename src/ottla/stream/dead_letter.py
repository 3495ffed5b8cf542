"""A record that could not be processed: as it was, with headers that say where it came from and what went wrong.

    ottla.dlq.topic, .partition, .offset, .timestamp    where the record is (its first place, if it was redriven)
    ottla.dlq.group                                     who failed to process it
    ottla.dlq.deliveries                                how often it was tried, redrives included
    ottla.dlq.error, .traceback                         the last failure
    ottla.dlq.failed_at                                 when that was, in milliseconds since 1970

`redriven` makes the record that goes back to its topic: as it was, with `ottla.redriven.*` headers that keep its first
place and its count, so that a record that fails again still tells its whole story.
"""

import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ottla.client.message import Message
from ottla.stream.output import Output
from ottla.types import TopicPartition

SUFFIX = ".dlq"
"""Topics with dead letters end with it, unless a program says otherwise."""
PREFIX = "ottla.dlq."
REDRIVEN = "ottla.redriven."
TRACEBACK_BYTES_MAX = 16 * 1024
ERROR_BYTES_MAX = 1024
DIGITS_MAX = 20
"""Of a number in a header: anybody may have written it."""

Headers = Sequence[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """What the headers say."""

    at: TopicPartition
    offset: int
    timestamp_ms: int
    group: str
    deliveries: int
    error: str
    traceback: str
    failed_at_ms: int
    headers: tuple[tuple[str, bytes | None], ...]
    """Those that the record had from the start."""


def default_topic(input_topic: str, group: str) -> str:
    return f"{input_topic}.{group}{SUFFIX}"


def dead_letter(
    message: Message, topic: str, *, group: str, deliveries: int, error: BaseException, now_ms: int
) -> Output:
    """`message` with key and value as they are in the log."""
    earlier = {name.removeprefix(REDRIVEN): value for name, value in message.headers if name.startswith(REDRIVEN)}
    place = {
        "topic": message.topic.encode(),
        "partition": b"%d" % message.partition,
        "offset": b"%d" % message.offset,
        "timestamp": b"%d" % message.timestamp,
    }
    about = {
        **{name: earlier.get(name) or value for name, value in place.items()},
        "group": group.encode(),
        "deliveries": b"%d" % (deliveries + _number(earlier.get("deliveries"), 0)),
        "error": _cut("".join(traceback.format_exception_only(error)).strip(), ERROR_BYTES_MAX),
        "traceback": _cut("".join(traceback.format_exception(error)), TRACEBACK_BYTES_MAX),
        "failed_at": b"%d" % now_ms,
    }
    headers = (*own_headers(message.headers), *((PREFIX + name, value) for name, value in about.items()))
    return Output(key=message.key, value=message.value, headers=headers, topic=topic)


def parse(headers: Iterable[tuple[str, bytes | None]]) -> DeadLetter | None:
    """None: it is not a dead letter."""
    headers = tuple(headers)
    found = {name.removeprefix(PREFIX): value or b"" for name, value in headers if name.startswith(PREFIX)}
    if "topic" not in found:
        return None
    return DeadLetter(
        at=TopicPartition(found["topic"].decode(errors="replace"), _number(found.get("partition"), -1)),
        offset=_number(found.get("offset"), -1),
        timestamp_ms=_number(found.get("timestamp"), -1),
        group=_text(found.get("group")),
        deliveries=_number(found.get("deliveries"), 0),
        error=_text(found.get("error")),
        traceback=_text(found.get("traceback")),
        failed_at_ms=_number(found.get("failed_at"), -1),
        headers=own_headers(headers),
    )


def redriven(letter: DeadLetter) -> tuple[tuple[str, bytes | None], ...]:
    """The headers with which a record goes back to its topic."""
    kept = {
        "topic": letter.at.topic.encode(),
        "partition": b"%d" % letter.at.partition,
        "offset": b"%d" % letter.offset,
        "timestamp": b"%d" % letter.timestamp_ms,
        "deliveries": b"%d" % letter.deliveries,
    }
    return (*letter.headers, *((REDRIVEN + name, value) for name, value in kept.items()))


def own_headers(headers: Iterable[tuple[str, bytes | None]]) -> tuple[tuple[str, bytes | None], ...]:
    return tuple((name, value) for name, value in headers if not name.startswith((PREFIX, REDRIVEN)))


def _number(value: bytes | None, default: int) -> int:
    text = _text((value or b"")[:DIGITS_MAX])
    return int(text) if text.removeprefix("-").isdecimal() else default


def _text(value: bytes | None) -> str:
    return (value or b"").decode(errors="replace")


def _cut(text: str, bytes_max: int) -> bytes:
    """The end of it, which in a traceback says what happened."""
    data = text.encode()
    return data if len(data) <= bytes_max else b"..." + data[3 - bytes_max :]
