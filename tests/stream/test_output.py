"""What functions may return."""

from collections.abc import Iterator
from typing import Any

import pytest

from ottla.client.errors import SerializationError
from ottla.client.message import Message
from ottla.stream.output import OUTPUT_BYTES_MAX, Output, Reject, in_bytes, outputs_of, size_of

MESSAGE = Message("t", 0, 0, key=b"k", value=b"v")


def generated() -> Iterator[Any]:
    yield b"a"
    yield None
    yield [Output(value=b"b", key=b"other"), "c"]


@pytest.mark.parametrize(
    ("result", "wanted"),
    [
        (None, []),
        ([], []),
        (b"", [(b"k", b"")]),
        ({"a": 1}, [(b"k", {"a": 1})]),
        (0, [(b"k", 0)]),
        (Output(value=b"x"), [(None, b"x")]),
        (("a", "b"), [(b"k", "a"), (b"k", "b")]),
        (generated(), [(b"k", b"a"), (b"other", b"b"), (b"k", "c")]),
    ],
)
def test_results_become_records(result: Any, wanted: list[tuple[Any, Any]]) -> None:
    assert [(output.key, output.value) for output in outputs_of(result, MESSAGE)] == wanted


def test_records_are_serialized_and_told_where_to_go() -> None:
    made = in_bytes(Output(value={"a": 1}, key="k", headers=(("h", b"1"),)), None, "out")
    assert (made.topic, made.value, made.key, size_of(made)) == ("out", b'{"a":1}', b"k", 7 + 1 + 2)
    assert in_bytes(Output(value=b"", topic="own"), None, "out").topic == "own"


@pytest.mark.parametrize(
    ("output", "topic", "kind"),
    [
        (Output(value=b"x"), None, Reject),
        (Output(value=bytes(OUTPUT_BYTES_MAX + 1)), "out", Reject),
        (Output(value=object()), "out", SerializationError),
    ],
)
def test_what_can_not_be_written_is_refused(output: Output, topic: str | None, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        in_bytes(output, None, topic)
