"""Headers: what stands between a frame's size and its body.

    request   api key int16, version int16, correlation id int32, client id string, [tagged fields]
    response  correlation id int32, [tagged fields]

Tagged fields are there in flexible versions. The client id is an int16 length and bytes in all of them. One exception:
the answer to ApiVersions never has tagged fields in its header, since the client that asks does not know yet what the
broker speaks.
"""

import struct
from typing import Final, NamedTuple

from ottla.errors import ProtocolError
from ottla.ports import Bytes
from ottla.protocol.codec import codec_for
from ottla.protocol.primitives import cut_short, skip_tagged_fields
from ottla.protocol.schema import Request, Response

__all__ = [
    "FRAME_SIZE", "RequestHeader", "encode_request", "encode_response", "parse_request_header", "parse_response_header",
    "request_header_is_flexible", "response_header_is_flexible", "skip_tagged_fields",
]  # fmt: skip

FRAME_SIZE: Final = struct.Struct(">i")
REQUEST_HEADER: Final = struct.Struct(">hhih")
"""API key, version, correlation id, and the length of the client id."""
CORRELATION_ID: Final = struct.Struct(">i")
API_VERSIONS_KEY: Final = 18


class RequestHeader(NamedTuple):
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def request_header_is_flexible(request: type[Request], version: int) -> bool:
    return version >= request.flexible_from


def response_header_is_flexible(request: type[Request], version: int) -> bool:
    return version >= request.flexible_from and request.api_key != API_VERSIONS_KEY


def parse_request_header(frame: memoryview, flexible: bool) -> tuple[RequestHeader, int]:
    """The header of a request, and where its body begins."""
    try:
        api_key, api_version, correlation_id, client_id_bytes = REQUEST_HEADER.unpack_from(frame)
        at = REQUEST_HEADER.size
        client_id = None
        if client_id_bytes >= 0:
            at += client_id_bytes
            if at > len(frame):
                cut_short()
            client_id = str(frame[REQUEST_HEADER.size : at], "utf-8")
        if flexible:
            at = skip_tagged_fields(frame, at)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise ProtocolError(f"request header: {error}") from error
    return RequestHeader(api_key, api_version, correlation_id, client_id), at


def parse_response_header(frame: memoryview, flexible: bool) -> tuple[int, int]:
    """The correlation id of an answer, and where its body begins."""
    try:
        (correlation_id,) = CORRELATION_ID.unpack_from(frame)
        at = CORRELATION_ID.size
        if flexible:
            at = skip_tagged_fields(frame, at)
    except (struct.error, IndexError) as error:
        raise ProtocolError(f"response header: {error}") from error
    return correlation_id, at


def encode_request(request: Request, version: int, *, correlation_id: int, client_id: str | None) -> list[Bytes]:
    """A whole frame, in pieces."""
    name = b"" if client_id is None else client_id.encode()
    header = (
        REQUEST_HEADER.pack(request.api_key, version, correlation_id, -1 if client_id is None else len(name)) + name
    )
    if request_header_is_flexible(type(request), version):
        header += b"\0"
    out: list[Bytes] = [header]
    codec_for(type(request), version).encode(request, out)
    return _framed(out)


def encode_response(response: Response, version: int, *, correlation_id: int) -> list[Bytes]:
    """A whole frame, in pieces."""
    header = CORRELATION_ID.pack(correlation_id)
    if version >= response.flexible_from and response.api_key != API_VERSIONS_KEY:
        header += b"\0"
    out: list[Bytes] = [header]
    codec_for(type(response), version).encode(response, out)
    return _framed(out)


def _framed(pieces: list[Bytes]) -> list[Bytes]:
    pieces[0] = FRAME_SIZE.pack(sum(map(len, pieces))) + pieces[0]
    return pieces
