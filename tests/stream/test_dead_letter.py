"""What a dead letter says, and what is left of that after a redrive."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.client.message import Message
from ottla.stream.dead_letter import (
    ERROR_BYTES_MAX,
    TRACEBACK_BYTES_MAX,
    DeadLetter,
    dead_letter,
    default_topic,
    parse,
    redriven,
)

headers = st.lists(st.tuples(st.text(max_size=10), st.none() | st.binary(max_size=10)), max_size=4)


def failed(message: Message, deliveries: int = 1, error: Exception | None = None) -> DeadLetter:
    letter = dead_letter(
        message, "t.dlq", group="g", deliveries=deliveries, error=error or ValueError("why"), now_ms=1_000
    )
    found = parse((name, value) for name, value in letter.headers if not isinstance(value, str))
    assert found is not None
    assert (letter.topic, letter.key, letter.value) == ("t.dlq", message.key, message.value)
    return found


@given(headers, st.integers(0, 2**62), st.integers(0, 1_000))
def test_a_letter_keeps_place_and_count_over_any_redrives(
    own: list[tuple[str, bytes | None]], offset: int, deliveries: int
) -> None:
    first = failed(Message("t", 3, offset, 77, b"k", b"v", own), deliveries)
    again = failed(Message("t", 0, offset + 9, 99, b"k", b"v", redriven(first)), deliveries)

    assert (first.at, first.offset, first.timestamp_ms, first.deliveries) == (("t", 3), offset, 77, deliveries)
    assert (again.at, again.offset, again.timestamp_ms) == (first.at, first.offset, first.timestamp_ms)
    assert again.deliveries == 2 * deliveries
    assert first.headers == again.headers == tuple(own)


def test_reasons_are_cut_at_their_beginning() -> None:
    letter = failed(Message("t", 0, 0), error=ValueError("x" * 100_000 + "the end"))
    assert len(letter.error.encode()) <= ERROR_BYTES_MAX
    assert len(letter.traceback.encode()) <= TRACEBACK_BYTES_MAX
    assert letter.error.startswith("...")
    assert letter.error.endswith("the end")


def test_the_traceback_is_the_functions() -> None:
    try:
        raise KeyError("missing")
    except KeyError as error:
        letter = failed(Message("t", 0, 0), error=error)
    assert "test_dead_letter.py" in letter.traceback
    assert letter.error == "KeyError: 'missing'"


def test_other_records_are_no_letters() -> None:
    assert parse([("trace", b"1")]) is None


@given(st.lists(st.tuples(st.sampled_from(["topic", "offset", "deliveries", "partition"]), st.binary()), max_size=6))
def test_headers_that_somebody_else_made_up_do_no_harm(made_up: list[tuple[str, bytes]]) -> None:
    letter = parse([("ottla.dlq.topic", b"t"), *((f"ottla.dlq.{name}", value) for name, value in made_up)])
    assert isinstance(letter, DeadLetter)


def test_a_number_without_end_does_no_harm() -> None:
    letter = parse([("ottla.dlq.topic", b"t"), ("ottla.dlq.offset", b"9" * 10_000)])
    assert letter is not None
    assert letter.offset > 0


def test_topics_are_named_by_input_and_group() -> None:
    assert default_topic("orders", "billing") == "orders.billing.dlq"
