"""Log lines: one event, one line, no secrets."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from ottla.observability.logs import JsonFormatter, TextFormatter, configure_logging


@pytest.fixture
def root_logger() -> Iterator[logging.Logger]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield root
    root.handlers[:] = handlers
    root.setLevel(level)


def event(message: str, *args: object, **fields: object) -> logging.LogRecord:
    record = logging.LogRecord("ottla.node", logging.INFO, __file__, 1, message, args, None)
    record.created = 1_700_000_000.5
    vars(record).update(fields)
    return record


def test_text_shows_time_level_logger_message_and_fields() -> None:
    line = TextFormatter().format(event("listening on %s", "a", port=9092, rack="eu 1"))

    assert line == '2023-11-14T22:13:20.500Z INFO    ottla.node: listening on a port=9092 rack="eu 1"'


def test_json_is_one_object_with_the_fields_as_they_are() -> None:
    line = JsonFormatter().format(event("listening", port=9092, ratio=0.5))

    assert json.loads(line) == {
        "time": "2023-11-14T22:13:20.500Z",
        "level": "INFO",
        "logger": "ottla.node",
        "message": "listening",
        "port": 9092,
        "ratio": 0.5,
    }


def test_json_writes_a_value_it_does_not_know_as_text() -> None:
    assert json.loads(JsonFormatter().format(event("odd", what={1})))["what"] == "{1}"


def test_a_field_can_not_overwrite_the_level_or_the_time() -> None:
    entry = json.loads(JsonFormatter().format(event("odd", level=7, time="never")))

    assert (entry["level"], entry["level_"], entry["time_"]) == ("INFO", 7, "never")


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()])
@pytest.mark.parametrize("evil", ["a\nb", "a\r\nb", "a\x1b[2Jb", "a\u2028b", "a\x9bb"])
def test_a_client_can_not_forge_a_line_or_send_escape_codes(formatter: logging.Formatter, evil: str) -> None:
    line = formatter.format(event("hello %s", evil, client_id=evil))

    assert len(line.split("\n")) == 1
    assert "\x1b" not in line
    assert line.isprintable()


def test_text_has_no_raw_control_characters() -> None:
    line = TextFormatter().format(event("hello %s", "a\u2028\x9b", client_id="\x00"))

    assert line.endswith(r"hello a\u2028\x9b client_id=\x00")


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()])
@pytest.mark.parametrize(
    ("message", "fields"),
    [
        ("user said password=hunter2", {}),
        ("sasl.jaas.config: hunter2;", {}),
        ("started", {"ssl_key_password": "hunter2"}),
        ("started", {"settings": {"port": 1, "tls": {"private_key": "hunter2"}}}),
        ("started", {"arguments": "--set api-token=hunter2"}),
    ],
)
def test_secrets_are_masked(formatter: logging.Formatter, message: str, fields: dict[str, object]) -> None:
    line = formatter.format(event(message, **fields))

    assert "hunter2" not in line
    assert "***" in line


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_an_exception_keeps_its_stack(root_logger: logging.Logger, log_format: str) -> None:
    stream = io.StringIO()
    configure_logging(log_format=log_format, stream=stream)

    try:
        raise ValueError("token=hunter2\nforged")
    except ValueError:
        root_logger.exception("failed")

    text = stream.getvalue()
    assert "ValueError: token=***" in text
    assert all(line.startswith("    ") for line in text.splitlines()[1:])


def test_levels_below_the_configured_one_are_dropped(root_logger: logging.Logger) -> None:
    stream = io.StringIO()
    configure_logging(level="warning", stream=stream)

    root_logger.info("quiet")
    root_logger.warning("loud")

    assert "quiet" not in stream.getvalue()
    assert "loud" in stream.getvalue()


def test_configuring_twice_prints_once(root_logger: logging.Logger) -> None:
    first, second = io.StringIO(), io.StringIO()
    configure_logging(stream=first)
    configure_logging(stream=second)

    root_logger.info("once")

    assert first.getvalue() == ""
    assert second.getvalue().count("once") == 1
