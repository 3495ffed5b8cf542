"""`ottla dlq`, with letters that a stream has written."""

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from ottla.client.message import Message
from ottla.stream import Processed, process
from tests.cli.command import Ottla

VALUES = (b"good 0", b"bad 1", b"good 2", b"bad 3", b"bad 4")


def strict(message: Message) -> Any:
    if message.value.startswith(b"bad"):
        raise ValueError(f"{message.value.decode()} is bad")
    return message.value


def run(bootstrap: str, topic: str, function: Any) -> Processed:
    return process(
        topic,
        None if function is forgiving else f"{topic}-out",
        function,
        group="g",
        attempts=2,
        backoff_ms=1,
        idle_ms=1_500,
        bootstrap_servers=bootstrap,
    )


def forgiving(message: Message) -> None:
    return None


@pytest.fixture
def letters(bootstrap: str, topic: str, ottla: Ottla) -> Iterator[str]:
    """The name of a topic with three letters."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in VALUES:
        producer.produce(topic, value, key=b"k", headers={"trace": b"7"})
    assert producer.flush(30) == 0
    assert run(bootstrap, topic, strict).dead_letters == 3
    yield f"{topic}.g.dlq"
    for name in (f"{topic}.g.dlq", f"{topic}-out"):
        ottla("topic", "delete", name, "--if-exists")


def waiting(ottla: Ottla, letters: str) -> int:
    [found] = [row for row in ottla("dlq", "list", "--json").json if row["topic"] == letters]
    return int(found["waiting"])


def test_letters_are_listed_and_shown(ottla: Ottla, topic: str, letters: str) -> None:
    assert waiting(ottla, letters) == 3
    first, *others = ottla("dlq", "show", letters, "--json").json
    assert len(others) == 2
    assert first["source"] == {"topic": topic, "partition": 0, "offset": 1}
    assert (first["deliveries"], first["group"], first["value"], first["key"]) == (2, "g", "bad 1", "k")
    assert first["error"] == "ValueError: bad 1 is bad"
    assert first["headers"] == [{"name": "trace", "value": "7"}]
    assert "raise ValueError" in first["traceback"]
    shown = ottla("dlq", "show", letters, "--max", "1", "--traceback").stdout
    assert f"{topic}-0 at 1" in shown
    assert "raise ValueError" in shown
    assert "bad 3" not in shown


def test_redriven_letters_are_processed_again_and_remember_their_first_place(
    ottla: Ottla, bootstrap: str, topic: str, letters: str
) -> None:
    assert ottla("dlq", "redrive", letters, "--max", "1", "--yes", "--json").json == {"redriven": 1, "waiting": 2}
    assert waiting(ottla, letters) == 2
    assert ottla("dlq", "redrive", letters, "--yes", "--json").json == {"redriven": 2, "waiting": 0}
    assert waiting(ottla, letters) == 0
    assert ottla("dlq", "redrive", letters, "--yes", "--json").json == {"redriven": 0, "waiting": 0}

    assert run(bootstrap, topic, strict).dead_letters == 3

    again = ottla("dlq", "show", letters, "--json").json
    assert [(letter["value"], letter["source"]["offset"], letter["deliveries"]) for letter in again] == [
        ("bad 1", 1, 4),
        ("bad 3", 3, 4),
        ("bad 4", 4, 4),
    ]
    assert again[0]["headers"] == [{"name": "trace", "value": "7"}]
    assert len(ottla("dlq", "show", letters, "--all", "--json").json) == 6


def test_letters_can_be_sent_elsewhere(ottla: Ottla, bootstrap: str, topic: str, letters: str) -> None:
    ottla("topic", "create", f"{topic}-repair")
    assert ottla("dlq", "redrive", letters, "--to", f"{topic}-repair", "--yes", "--json").json["redriven"] == 3
    assert sorted(ottla("consume", f"{topic}-repair", "--from", "beginning").lines) == ["bad 1", "bad 3", "bad 4"]
    assert run(bootstrap, topic, forgiving).records == 0
    ottla("topic", "delete", f"{topic}-repair")


def test_a_topic_that_is_not_there_is_told(ottla: Ottla) -> None:
    for arguments in (("list", "nowhere.dlq"), ("show", "nowhere.dlq"), ("redrive", "nowhere.dlq", "--yes")):
        assert "nowhere.dlq" in ottla("dlq", *arguments, code=1).stderr
