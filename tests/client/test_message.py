import pytest

from ottla.client.message import Message
from ottla.types import TopicPartition


def message() -> Message:
    return Message("orders", 2, 17, 1_700_000_000_000, b"k", b"v", [("a", b"1"), ("b", b"2"), ("a", b"3")])


def test_it_reads_like_an_object_and_like_a_mapping() -> None:
    made = message()

    assert made.offset == 17
    assert made["offset"] == 17
    assert {field: made[field] for field in made} == dict(made)


def test_as_a_dictionary_it_has_what_a_record_has() -> None:
    assert dict(message()) == {
        "topic": "orders",
        "partition": 2,
        "offset": 17,
        "timestamp": 1_700_000_000_000,
        "key": b"k",
        "value": b"v",
        "headers": [("a", b"1"), ("b", b"2"), ("a", b"3")],
    }


def test_what_is_no_field_is_missing() -> None:
    made = message()

    assert "colour" not in made
    assert made.get("colour", "red") == "red"
    with pytest.raises(KeyError):
        made["error"]


def test_the_last_header_of_a_name_counts() -> None:
    assert message().header("a") == b"3"
    assert message().header("none") is None


def test_without_headers_there_are_none() -> None:
    assert list(Message("t", 0, 0).headers) == []


def test_it_knows_its_partition() -> None:
    assert message().topic_partition == TopicPartition("orders", 2)
