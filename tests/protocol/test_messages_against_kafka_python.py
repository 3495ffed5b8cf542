"""Every message that kafka-python has too, byte for byte as it writes it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.codec import decode, encode
from ottla.protocol.schema import Versioned
from tests.protocol import kafka_python_oracle
from tests.protocol.catalog import EVERYTHING, name_of
from tests.protocol.strategies import examples, messages

KNOWN = [(cls, version) for cls, version in EVERYTHING if kafka_python_oracle.has(cls, version)]


def test_kafka_python_is_asked_about_most_of_what_clients_use() -> None:
    assert len({cls for cls, _ in KNOWN}) >= 80


@pytest.mark.parametrize(("cls", "version"), KNOWN, ids=name_of)
@given(drawn=st.data())
@examples(4)
def test_bytes_are_those_of_kafka_python(cls: type[Versioned], version: int, drawn: st.DataObject) -> None:
    ours = drawn.draw(messages(cls, version))

    encoded = bytes(kafka_python_oracle.build(ours, version).encode(version=version))

    assert encode(ours, version) == encoded
    assert decode(cls, version, encoded) == ours
