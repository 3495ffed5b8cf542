"""What isn't a request is answered with an error or with a closed connection, and harms nobody else."""

import contextlib
import random
import socket
import struct
from collections.abc import Callable

import pytest

from ottla.errors import ErrorCode
from ottla.protocol.codec import decode, encode
from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.schema import Request
from tests.robustness.raw_client import RawClient, frame, is_served, produce_request

HEADER = struct.pack(">hhih", 3, 1, 1, -1)  # Metadata v1, no client id


def _cut(data: bytes, at: int) -> bytes:
    """A frame whose size is right for what is left of it."""
    return struct.pack(">i", at) + data[4 : 4 + at]


BYTES = {
    "negative size": struct.pack(">i", -1),
    "most negative size": struct.pack(">i", -(2**31)),
    "size of two gigabytes": struct.pack(">i", 2**31 - 1) + b"x" * 1000,
    "size over the limit": struct.pack(">i", 101 * 1024 * 1024) + b"x" * 1000,
    "no header": struct.pack(">i", 0),
    "half a header": struct.pack(">i", 3) + b"\0\3\0",
    "an HTTP request": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a TLS hello": bytes.fromhex("1603010200010001fc0303") + b"\1" * 100,
    "unknown API": struct.pack(">i", 10) + struct.pack(">hhih", 9999, 0, 1, -1),
    "negative API": struct.pack(">i", 10) + struct.pack(">hhih", -7, 0, 1, -1),
    "unknown version": struct.pack(">i", 14) + struct.pack(">hhih", 3, 99, 1, -1) + b"\0\0\0\0",
    "negative version": struct.pack(">i", 14) + struct.pack(">hhih", 3, -1, 1, -1) + b"\0\0\0\0",
    "client id beyond the end": struct.pack(">i", 10) + struct.pack(">hhih", 3, 1, 1, 500),
    "array beyond the end": struct.pack(">i", 14) + HEADER + struct.pack(">i", 2**31 - 1),
    "string beyond the end": struct.pack(">i", 16) + HEADER + struct.pack(">ih", 1, 32_000),
    "body cut off": _cut(frame(MetadataRequest(topics=[MetadataRequestTopic(name="some-topic")]), 9), 25),
    "produce cut off": _cut(frame(produce_request("some-topic", b"x" * 100), 7), 60),
}


@pytest.mark.parametrize("data", BYTES.values(), ids=BYTES.keys())
def test_bytes_that_are_no_request_close_their_connection_only(bootstrap: str, data: bytes) -> None:
    with RawClient(bootstrap) as client, RawClient(bootstrap) as neighbour:
        client.send(data)

        assert client.is_closed()
        neighbour.send(frame(ApiVersionsRequest(), 0))
        assert neighbour.receive_frame()


def test_requests_before_a_bad_one_are_answered(bootstrap: str) -> None:
    with RawClient(bootstrap) as client:
        client.send(frame(ApiVersionsRequest(), 0))
        assert client.receive_frame()
        client.send(BYTES["unknown API"])
        assert client.is_closed()


@pytest.mark.parametrize("version", [5, 99, 32_767])
def test_an_unknown_version_of_api_versions_is_answered_with_what_is_known(bootstrap: str, version: int) -> None:
    with RawClient(bootstrap) as client:
        client.send_frame(struct.pack(">hhih", 18, version, 7, -1) + b"\0")
        answer = client.receive_frame()

    assert struct.unpack_from(">i", answer)[0] == 7
    response = decode(ApiVersionsResponse, 0, memoryview(answer)[4:])
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert 18 in {api.api_key for api in response.api_keys}


def test_a_frame_that_comes_byte_by_byte_is_answered(bootstrap: str) -> None:
    with RawClient(bootstrap) as client:
        client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in frame(ApiVersionsRequest(), 0):
            client.send(bytes([byte]))

        assert client.receive_frame()


def test_many_requests_in_one_packet_are_answered_in_order(bootstrap: str) -> None:
    with RawClient(bootstrap) as client:
        client.send(b"".join(frame(ApiVersionsRequest(), 0, correlation_id=number) for number in range(100)))

        answered = [struct.unpack_from(">i", client.receive_frame())[0] for _ in range(100)]

    assert answered == list(range(100))


def _metadata(generator: random.Random) -> tuple[Request, int]:
    return MetadataRequest(topics=[MetadataRequestTopic(name="some-topic")]), generator.choice([1, 4, 9, 12])


def _produce(generator: random.Random) -> tuple[Request, int]:
    return produce_request("some-topic", generator.randbytes(80)), generator.choice([3, 7, 9, 11])


def _fetch(generator: random.Random) -> tuple[Request, int]:
    topic = FetchTopic(topic="some-topic", partitions=[FetchPartition(partition=0, partition_max_bytes=1000)])
    return FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1000, topics=[topic]), generator.choice([4, 7, 11, 12])


def _api_versions(generator: random.Random) -> tuple[Request, int]:
    return ApiVersionsRequest(client_software_name="n", client_software_version="1"), generator.choice([0, 3])


@pytest.mark.parametrize("make", [_metadata, _produce, _fetch, _api_versions])
@pytest.mark.parametrize("seed", range(5))
def test_flipped_bytes_never_stop_the_node(
    bootstrap: str, make: Callable[[random.Random], tuple[Request, int]], seed: int
) -> None:
    """Each frame says its size truly, so that all of it reaches the decoder, but some bytes of its body are others."""
    generator = random.Random(seed)
    for _ in range(40):
        request, version = make(generator)
        body = bytearray(frame(request, version)[4:])
        for _ in range(generator.randint(1, 6)):
            body[generator.randrange(8, len(body))] = generator.randrange(256)
        with RawClient(bootstrap) as client:
            client.send_frame(bytes(body))
            _ignore_answer(client)

    assert is_served(bootstrap)


def _ignore_answer(client: RawClient) -> None:
    """There may be one, or none: a Produce that became acks=0, a Fetch that now waits for a year."""
    client.socket.settimeout(0.2)
    with contextlib.suppress(TimeoutError):
        client.receive_frame()


def test_random_bytes_never_stop_the_node(bootstrap: str) -> None:
    generator = random.Random(1)
    for _ in range(200):
        with RawClient(bootstrap) as client:
            client.send_frame(generator.randbytes(generator.randint(1, 300)))
            _ignore_answer(client)

    assert is_served(bootstrap)


ODD = {
    "bytes after the request": struct.pack(">hhihb", 3, 9, 1, -1, 0)
    + encode(MetadataRequest(topics=None), 9)
    + b"more",
    "array of negative size": HEADER + struct.pack(">i", -5),
    "string that is not text": HEADER + struct.pack(">ih", 1, 4) + b"\xff\xfe\xfd\xfc",
}


@pytest.mark.parametrize("body", ODD.values(), ids=ODD.keys())
def test_odd_requests_are_answered_or_close_their_connection(bootstrap: str, body: bytes) -> None:
    """Kafka's decoder lets these through; nothing is lost if another one doesn't, as long as nobody waits."""
    with RawClient(bootstrap) as client:
        client.send_frame(body)
        client.receive_frame()

    assert is_served(bootstrap)
