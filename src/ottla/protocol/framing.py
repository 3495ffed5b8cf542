"""Headers: what stands between a frame's size and its body.

    request   api key int16, version int16, correlation id int32, client id string, [tagged fields]
    response  correlation id int32, [tagged fields]

Tagged fields are there in flexible versions. The client id is an int16 length and bytes in all of them. One exception:
the answer to ApiVersions never has tagged fields in its header, since the client that asks does not know yet what the
broker speaks.
"""

import struct
from typing import Final

from ottla.errors import ProtocolError
from ottla.ports import Bytes
from ottla.protocol.codec import codec_for
from ottla.protocol.primitives import skip_tagged_fields
from ottla.protocol.schema import Request

__all__ = [
    "CLIENT_AT", "CORRELATION_ID", "CORRELATION_ID_AT", "FLEXIBLE_RESPONSE_HEADER", "FRAME_SIZE", "REQUEST_HEADER",
    "RESPONSE_HEADER", "encode_request", "parse_response_header", "request_header_is_flexible",
    "response_header_is_flexible", "skip_tagged_fields",
]  # fmt: skip

FRAME_SIZE: Final = struct.Struct(">i")
REQUEST_HEADER: Final = struct.Struct(">hhih")
"""API key, version, correlation id, and the length of the client id."""
RESPONSE_HEADER: Final = struct.Struct(">ii")
"""The size of the frame, and the correlation id."""
FLEXIBLE_RESPONSE_HEADER: Final = struct.Struct(">iiB")
"""The same, and the number of tagged fields."""
CORRELATION_ID: Final = struct.Struct(">i")
CORRELATION_ID_AT: Final = 4
"""In a frame with an answer."""
CLIENT_AT: Final = 12
"""In a frame with a request: where the length of the client id stands. Before it only size, API and correlation id."""
API_VERSIONS_KEY: Final = 18


def request_header_is_flexible(request: type[Request], version: int) -> bool:
    return version >= request.flexible_from


def response_header_is_flexible(request: type[Request], version: int) -> bool:
    return version >= request.flexible_from and request.api_key != API_VERSIONS_KEY


def encode_request(request: Request, version: int, *, correlation_id: int, client_id: str | None) -> list[Bytes]:
    """A whole frame, in pieces."""
    name = b"" if client_id is None else client_id.encode()
    name_bytes = -1 if client_id is None else len(name)
    tags = b"\0" if request_header_is_flexible(type(request), version) else b""
    out: list[Bytes] = [REQUEST_HEADER.pack(request.api_key, version, correlation_id, name_bytes) + name + tags]
    codec_for(type(request), version).encode(request, out)
    return [FRAME_SIZE.pack(sum(map(len, out))), *out]


def parse_response_header(frame: memoryview, flexible: bool) -> tuple[int, int]:
    """The correlation id of an answer, and where its body begins."""
    if len(frame) < CORRELATION_ID.size:
        raise ProtocolError(f"{len(frame)} bytes are too few for the header of an answer")
    (correlation_id,) = CORRELATION_ID.unpack_from(frame)
    return correlation_id, skip_tagged_fields(frame, CORRELATION_ID.size) if flexible else CORRELATION_ID.size
