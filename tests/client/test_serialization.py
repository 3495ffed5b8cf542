import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.errors import SerializationError
from ottla.client.serialization import from_json, json_bytes, serialized, text, to_bytes

plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
jsonable = st.recursive(plain, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=10)


def test_bytes_stay_as_they_are() -> None:
    data = b"\x00\xff"

    assert to_bytes(data) is data


def test_other_kinds_of_bytes_are_copied() -> None:
    assert to_bytes(bytearray(b"ab")) == b"ab"
    assert to_bytes(memoryview(b"ab")[1:]) == b"b"


def test_text_is_utf_8() -> None:
    assert to_bytes("řeka") == "řeka".encode()


def test_nothing_stays_nothing() -> None:
    assert to_bytes(None) is None


@given(jsonable.filter(lambda value: value is not None and not isinstance(value, str)))
def test_what_json_can_say_comes_back(value: object) -> None:
    data = to_bytes(value)

    assert data is not None
    assert from_json(data) == value


def test_json_is_compact() -> None:
    assert json_bytes({"a": [1, 2], "b": "ž"}) == '{"a":[1,2],"b":"ž"}'.encode()


def test_text_is_read_back() -> None:
    assert text("řeka".encode()) == "řeka"


def test_a_value_that_cannot_be_serialized_is_named() -> None:
    with pytest.raises(SerializationError, match=r"the value <object object .*can't be turned into bytes"):
        serialized(to_bytes, object(), "value")


def test_a_serializer_that_returns_something_else_is_found_out() -> None:
    with pytest.raises(SerializationError, match="serializer of the key returned str"):
        serialized(json.dumps, {"a": 1}, "key")  # type: ignore[arg-type]  # the mistake that the test is about
