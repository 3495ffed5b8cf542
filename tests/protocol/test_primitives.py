import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.errors import ProtocolError
from ottla.protocol.primitives import read_uvarint, skip_tagged_fields, uvarint


@given(value=st.integers(0, 2**35 - 1), before=st.binary(max_size=3))
@settings(deadline=None)
def test_varints_survive_a_round_trip(value: int, before: bytes) -> None:
    encoded = before + uvarint(value)

    assert read_uvarint(memoryview(encoded), len(before)) == (value, len(encoded))


@pytest.mark.parametrize(("value", "encoded"), [(0, b"\0"), (127, b"\x7f"), (128, b"\x80\x01"), (300, b"\xac\x02")])
def test_varints_are_seven_bits_a_byte_with_the_lowest_first(value: int, encoded: bytes) -> None:
    assert uvarint(value) == encoded


def test_a_varint_that_does_not_end_is_refused() -> None:
    with pytest.raises(ProtocolError):
        read_uvarint(memoryview(b"\xff" * 9), 0)


def test_unknown_tagged_fields_are_stepped_over() -> None:
    assert skip_tagged_fields(memoryview(b"\x02\x00\x02ab\x01\x00rest"), 0) == 7


@pytest.mark.parametrize(
    "encoded", [b"", b"\x01", b"\x01\x00", b"\x01\x00\x02a", b"\xff\xff\xff\xff\x0f", b"\x02\x00\x00"]
)
def test_tagged_fields_that_end_too_early_are_refused(encoded: bytes) -> None:
    with pytest.raises(ProtocolError):
        skip_tagged_fields(memoryview(encoded), 0)
