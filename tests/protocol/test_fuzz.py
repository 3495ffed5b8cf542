"""Bytes that nobody meant, into every decoder: they become a message or a ProtocolError, in bounded time and memory."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import ProtocolError
from ottla.protocol.codec import decode, encode
from ottla.protocol.schema import Versioned
from tests.protocol.catalog import EVERYTHING, name_of, versions
from tests.protocol.strategies import examples, messages

NEWEST = [(cls, version) for cls, version in EVERYTHING if version == versions(cls)[-1]]
HUGE_LENGTHS = [b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"\xff\xff\xff\xff\x07", b"\xff" * 16]
PEAK_BYTES_MAX = 1 << 20


def decode_or_refuse(cls: type[Versioned], version: int, encoded: bytes) -> None:
    try:
        message = decode(cls, version, encoded)
    except ProtocolError:
        return
    assert decode(cls, version, encode(message, version)) == message


@pytest.mark.parametrize(("cls", "version"), EVERYTHING, ids=name_of)
@given(encoded=st.binary(max_size=120))
@examples(5)
def test_random_bytes(cls: type[Versioned], version: int, encoded: bytes) -> None:
    decode_or_refuse(cls, version, encoded)


@pytest.mark.parametrize(("cls", "version"), NEWEST, ids=name_of)
@given(drawn=st.data())
@examples(6)
def test_messages_with_bytes_changed_and_cut_off(cls: type[Versioned], version: int, drawn: st.DataObject) -> None:
    encoded = bytearray(encode(drawn.draw(messages(cls, version)), version))
    for at, byte in drawn.draw(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=5)):
        if encoded:
            encoded[at % len(encoded)] = byte
    cut = drawn.draw(st.integers(0, 8))

    decode_or_refuse(cls, version, bytes(encoded[: len(encoded) - cut]))


@pytest.mark.parametrize("length", HUGE_LENGTHS, ids=lambda length: length.hex())
def test_a_huge_length_at_any_place_costs_no_memory(length: bytes) -> None:
    whole = [(cls, version, encode(cls(), version)) for cls, version in EVERYTHING]
    for cls, version, encoded in whole:
        decode_or_refuse(cls, version, encoded)  # so that every codec is compiled before memory is counted
    tracemalloc.start()
    try:
        for cls, version, encoded in whole:
            for at in range(min(len(encoded), 40)):
                decode_or_refuse(cls, version, encoded[:at] + length + encoded[at + len(length) :] + bytes(32))
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < PEAK_BYTES_MAX
