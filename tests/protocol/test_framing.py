import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_entity_schema
from kio.serial import entity_writer
from kio.static.constants import EntityType

from ottla.errors import ProtocolError
from ottla.protocol.codec import encode
from ottla.protocol.framing import (
    FRAME_SIZE,
    encode_request,
    parse_response_header,
    request_header_is_flexible,
    response_header_is_flexible,
)
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest


def kio_header(version: int, client_id: str | None, correlation_id: int) -> bytes:
    header = load_entity_schema("request_header", version, EntityType.header)(
        request_api_key=HeartbeatRequest.api_key,
        request_api_version=4 if version == 2 else 3,
        correlation_id=correlation_id,
        client_id=client_id,
    )
    out = io.BytesIO()
    entity_writer(type(header))(out, header)
    return out.getvalue()


@given(client_id=st.none() | st.text(max_size=20), correlation_id=st.integers(-(2**31), 2**31 - 1))
@settings(deadline=None)
def test_headers_are_those_of_kio(client_id: str | None, correlation_id: int) -> None:
    for header_version, api_version in ((1, 3), (2, 4)):
        header = kio_header(header_version, client_id, correlation_id)
        body = encode(HeartbeatRequest(group_id="g"), api_version)
        frame = b"".join(
            encode_request(
                HeartbeatRequest(group_id="g"), api_version, correlation_id=correlation_id, client_id=client_id
            )
        )

        assert frame == FRAME_SIZE.pack(len(header + body)) + header + body


def test_the_answer_to_api_versions_has_the_oldest_header_in_all_versions() -> None:
    assert request_header_is_flexible(ApiVersionsRequest, 3)
    assert not response_header_is_flexible(ApiVersionsRequest, 3)
    assert response_header_is_flexible(HeartbeatRequest, 4)
    assert not response_header_is_flexible(HeartbeatRequest, 3)
    assert not request_header_is_flexible(SaslHandshakeRequest, 1)


@pytest.mark.parametrize(
    ("frame", "flexible", "body_at"),
    [(b"\0\0\0\x07", False, 4), (b"\0\0\0\x07\0", True, 5), (b"\0\0\0\x07\x01\x09\x02ab", True, 9)],
)
def test_an_answer_begins_with_the_correlation_id_and_tags_that_are_skipped(
    frame: bytes, flexible: bool, body_at: int
) -> None:
    assert parse_response_header(memoryview(frame + b"body"), flexible) == (7, body_at)


@pytest.mark.parametrize("frame", [b"", bytes(3), b"\0\0\0\1", b"\0\0\0\1\x01\x00"])
def test_a_broken_response_header_is_refused(frame: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse_response_header(memoryview(frame), True)
