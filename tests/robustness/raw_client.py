"""A connection without manners: whole requests for what is served, and any bytes for what should not be."""

import socket
import struct
from collections.abc import Mapping
from typing import Self, TypeVar

from ottla.protocol.codec import decode
from ottla.protocol.framing import encode_request, parse_response_header, response_header_is_flexible
from ottla.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.protocol.schema import Request, Response
from tests.interop.waiting import eventually

AnyResponse = TypeVar("AnyResponse", bound=Response)
TIMEOUT_S = 15.0
NO_CONFIG: Mapping[str, str] = {}


class RawClient:
    """One TCP connection to a broker."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=TIMEOUT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def send_frame(self, body: bytes) -> None:
        self.send(struct.pack(">i", len(body)) + body)

    def receive_frame(self) -> bytes:
        """The next answer; b"" when the broker has closed the connection."""
        head = self._receive(4)
        return self._receive(struct.unpack(">i", head)[0]) if head else b""

    def _receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            try:
                part = self.socket.recv(size - len(data))
            except ConnectionResetError:
                return b""
            if not part:
                return b""
            data += part
        return data

    def call(self, request: Request, version: int, answer: type[AnyResponse]) -> AnyResponse:
        self.send(frame(request, version))
        received = self.receive_frame()
        assert received, "the broker closed the connection"
        flexible = response_header_is_flexible(type(request), version)
        _, at = parse_response_header(memoryview(received), flexible)
        return decode(answer, version, memoryview(received)[at:])

    def is_closed(self) -> bool:
        """Waits until the broker closes the connection; False if it sends something or nothing at all."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False


def frame(request: Request, version: int, *, correlation_id: int = 1) -> bytes:
    pieces = encode_request(request, version, correlation_id=correlation_id, client_id="robustness")
    return b"".join(bytes(piece) for piece in pieces)


def is_served(bootstrap: str) -> bool:
    """Does a well-behaved client get its answer?"""
    with RawClient(bootstrap) as client:
        return bool(client.call(MetadataRequest(topics=None), 9, MetadataResponse).brokers)


def create_topic(
    bootstrap: str, name: str, *, partitions: int = 1, replicas: int = 1, config: Mapping[str, str] = NO_CONFIG
) -> None:
    configs = [CreatableTopicConfig(name=key, value=value) for key, value in config.items()]
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas, configs=configs)
    with RawClient(bootstrap) as client:
        response = client.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5, CreateTopicsResponse)
        assert response.topics[0].error_code == 0
        wanted = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
        # Kafka answers before all of it knows the new topic
        eventually(lambda: client.call(wanted, 9, MetadataResponse).topics[0].error_code == 0)


def produce_request(topic: str, batch: bytes, *, acks: int = -1, partition: int = 0) -> ProduceRequest:
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=batch)])
    return ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=[data])


def produce(client: RawClient, topic: str, batch: bytes, *, version: int = 9) -> PartitionProduceResponse:
    response = client.call(produce_request(topic, batch), version, ProduceResponse)
    return response.responses[0].partition_responses[0]
