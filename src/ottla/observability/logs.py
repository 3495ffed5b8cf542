"""How log lines look: one line per event, as text for people or as JSON for machines.

A log call gives an event in words and its facts as fields:

    logger.info("listening", extra={"address": "127.0.0.1", "port": 9092})

and both formats print the fields after the words. Three things are taken care of here so that no caller has to:

- names sent by clients may hold line breaks or escape codes; they are escaped, so a client can't forge a log line;
- fields and settings whose name says secret are masked;
- the time is UTC with milliseconds, so that lines of several nodes sort together.
"""

import logging
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TextIO

MASK = "***"

_SECRET_WORDS = "password|passwd|secret|token|credential|private[._-]?key|jaas"
_SECRET_NAME = re.compile(_SECRET_WORDS, re.IGNORECASE)
_SECRET_IN_TEXT = re.compile(rf"([\w.-]*(?:{_SECRET_WORDS})[\w.-]*\s*[=:]\s*)([^\s,;]+)", re.IGNORECASE)
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_NEEDS_QUOTES = re.compile(r'[\s="]|^$')

_OWN_ATTRIBUTES = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""What every LogRecord has: all other attributes came in through `extra`."""


def configure_logging(*, level: str = "INFO", log_format: str = "text", stream: TextIO | None = None) -> None:
    """Send everything of `level` and above to `stream` (standard error), replacing what was configured before.

    `log_format` is "text" or "json".
    """
    handler = logging.StreamHandler(stream if stream is not None else sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


class TextFormatter(logging.Formatter):
    """`2026-01-31T12:00:00.000Z INFO  ottla.runtime.node: listening address=127.0.0.1 port=9092`."""

    def format(self, record: logging.LogRecord) -> str:
        words = f"{utc_text(record.created)} {record.levelname:<7} {record.name}: {printable(message_of(record))}"
        fields = "".join(f" {name}={text_value(value)}" for name, value in fields_of(record))
        return words + fields + self._stack(record)

    def _stack(self, record: logging.LogRecord) -> str:
        """The only thing that may take more than one line; indented so that it can't be taken for an event."""
        stack = stack_of(record)
        return "".join(f"\n    {printable(line)}" for line in stack.splitlines())


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, then the event's own fields."""

    def format(self, record: logging.LogRecord) -> str:
        import json  # only a node that logs JSON pays for the import at its start

        event: dict[str, object] = {
            "time": utc_text(record.created),
            "level": record.levelname,
            "logger": record.name,
            "message": message_of(record),
        }
        for name, value in fields_of(record):
            event[name if name not in event else f"{name}_"] = value
        stack = stack_of(record)
        if stack:
            event["stack"] = stack
        return json.dumps(event, default=str)


def utc_text(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def message_of(record: logging.LogRecord) -> str:
    return without_secrets(record.getMessage())


def stack_of(record: logging.LogRecord) -> str:
    parts = []
    if record.exc_info:
        parts.append(logging.Formatter().formatException(record.exc_info))
    if record.stack_info:
        parts.append(record.stack_info)
    return without_secrets("\n".join(parts))


def fields_of(record: logging.LogRecord) -> Iterator[tuple[str, object]]:
    for name, value in vars(record).items():
        if name not in _OWN_ATTRIBUTES:
            yield name, masked(name, value)


def masked(name: str, value: object) -> object:
    """`value`, unless `name` (or a name inside of it) says that it is a secret."""
    if _SECRET_NAME.search(name):
        return MASK
    if isinstance(value, dict):
        return {key: masked(str(key), inner) for key, inner in value.items()}
    if isinstance(value, str):
        return without_secrets(value)
    return value


def without_secrets(text: str) -> str:
    return _SECRET_IN_TEXT.sub(rf"\g<1>{MASK}", text)


def printable(text: str) -> str:
    return _UNPRINTABLE.sub(lambda found: found.group().encode("unicode_escape").decode(), text)


def text_value(value: object) -> str:
    text = printable(str(value))
    if _NEEDS_QUOTES.search(text):
        return '"' + text.replace('"', '\\"') + '"'
    return text
