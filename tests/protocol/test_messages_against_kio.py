"""Every message in every version, byte for byte as kio writes and reads it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.codec import decode, encode
from ottla.protocol.schema import Versioned
from tests.protocol import kio_oracle
from tests.protocol.catalog import EVERYTHING, REQUESTS, RESPONSES, name_of
from tests.protocol.strategies import examples, messages

KNOWN_TO_KIO = [(cls, version) for cls, version in EVERYTHING if kio_oracle.schema(cls, version)]


def test_kio_knows_every_request_and_response_that_we_have() -> None:
    known = {cls for cls, _ in KNOWN_TO_KIO}
    missing = {cls.__name__ for cls in (*REQUESTS, *RESPONSES)} - {cls.__name__ for cls in known}
    assert missing == set()
    assert [(cls, version) for cls, version in EVERYTHING if cls in known and (cls, version) not in KNOWN_TO_KIO] == []


@pytest.mark.parametrize(("cls", "version"), KNOWN_TO_KIO, ids=name_of)
@given(drawn=st.data())
@examples(8)
def test_bytes_are_those_of_kio(cls: type[Versioned], version: int, drawn: st.DataObject) -> None:
    kio_class = kio_oracle.schema(cls, version)
    ours, theirs = kio_oracle.fit(drawn.draw(messages(cls, version)), version, kio_class)

    encoded = kio_oracle.encode(theirs)

    assert encode(ours, version) == encoded
    assert decode(cls, version, encoded) == ours
