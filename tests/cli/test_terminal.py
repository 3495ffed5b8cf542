"""What a person sees: the same commands on a terminal."""

import os
import pty
import re
import subprocess
from dataclasses import dataclass

from tests.cli.command import SCRIPT, Ottla, environment

ESCAPE_CODES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    code: int
    raw: str

    @property
    def text(self) -> str:
        return ESCAPE_CODES.sub("", self.raw).replace("\r\n", "\n")


def on_terminal(ottla: Ottla, *arguments: str, typed: bytes = b"", stdin: int | None = None) -> Screen:
    """Run a command with a terminal of 100 columns at all its ends (or at all but standard input)."""
    ours, theirs = pty.openpty()
    variables = {"TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40"}
    process = subprocess.Popen(
        [SCRIPT, *arguments],
        stdin=theirs if stdin is None else stdin,
        stdout=theirs,
        stderr=theirs,
        env={**environment(ottla.bootstrap), **variables},
    )
    os.close(theirs)
    os.write(ours, typed)
    seen = b""
    while piece := _read(ours):
        seen += piece
    os.close(ours)
    return Screen(code=process.wait(30), raw=seen.decode())


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65_536)
    except OSError:  # Linux says EIO when the last one at the other end has gone
        return b""


def test_tables_are_drawn(ottla: Ottla, topic: str) -> None:
    screen = on_terminal(ottla, "topic", "describe", topic)

    assert screen.code == 0
    assert re.search(r"─{20}", screen.text)
    assert "\x1b[1m" in screen.raw
    assert topic in screen.text


def test_json_is_indented_for_eyes(ottla: Ottla, topic: str) -> None:
    assert f'\n    "topic": "{topic}",\n' in on_terminal(ottla, "topic", "list", "--json").text


def test_a_record_can_not_take_over_the_terminal(ottla: Ottla, topic: str) -> None:
    ottla("produce", topic, stdin=b"\x1b]0;owned\x07\x1b[2J\n")

    assert on_terminal(ottla, "consume", topic).raw == "\\x1b]0;owned\\x07\\x1b[2J\r\n"


def test_produce_shows_how_far_it_is(ottla: Ottla, topic: str) -> None:
    reader, writer = os.pipe()
    with os.fdopen(writer, "wb") as lines:
        lines.write(b"x\n" * 20_000)
    screen = on_terminal(ottla, "produce", topic, stdin=reader)
    os.close(reader)

    assert screen.code == 0
    assert f"to {topic}" in screen.text
    assert "20,000 records to" in screen.text


def test_a_person_is_asked_before_a_topic_is_deleted(ottla: Ottla, topic: str) -> None:
    refused = on_terminal(ottla, "topic", "delete", topic, typed=b"n\n")
    assert refused.code == 1
    assert f"Delete {topic} with all records?" in refused.text
    assert "Nothing was changed." in refused.text

    assert on_terminal(ottla, "topic", "delete", topic, typed=b"y\n").code == 0
    assert topic not in ottla("topic", "list").stdout


def test_records_can_be_typed(ottla: Ottla, topic: str) -> None:
    screen = on_terminal(ottla, "produce", topic, typed=b"hello\nworld\n\x04")

    assert screen.code == 0
    assert "Ctrl-D ends" in screen.text
    assert ottla("consume", topic).lines == ["hello", "world"]
