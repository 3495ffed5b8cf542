"""One connection to each broker that is talked to; one request at a time."""

import socket
from contextlib import suppress
from typing import TypeVar

from ottla.client.errors import TopicNotFoundError, UnreachableError
from ottla.client.settings import Servers, server_list
from ottla.client.wire import exchange
from ottla.errors import ErrorCode
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.protocol.schema import Request, Response
from ottla.types import TopicPartition

Answer = TypeVar("Answer", bound=Response)
Address = tuple[str, int]

CLIENT_ID = "ottla-two-phase"
CONNECT_TIMEOUT_S = 5.0
REQUEST_TIMEOUT_S = 30.0
TRANSACTION = 1
METADATA_VERSION = 12


class Brokers:
    def __init__(self, servers: Servers) -> None:
        self._seeds = [_address(one) for one in server_list(servers).split(",")]
        self._open: dict[Address, socket.socket] = {}
        self._leaders: dict[TopicPartition, Address] = {}
        self._counts: dict[str, int] = {}
        self._correlation_id = 0

    def close(self) -> None:
        while self._open:
            self._open.popitem()[1].close()

    def ask(self, address: Address, request: Request, answer: type[Answer], version: int | None = None) -> Answer:
        """OSError if the connection breaks: what became of the request is not known then."""
        version = request.versions[1] if version is None else version
        self._correlation_id += 1
        try:
            return exchange(
                self._connection(address),
                request,
                answer,
                version=version,
                client_id=CLIENT_ID,
                correlation_id=self._correlation_id,
            )
        except OSError:
            with suppress(KeyError):
                self._open.pop(address).close()
            raise

    def ask_any(self, request: Request, answer: type[Answer], version: int | None = None) -> Answer:
        """Those that are known to live first."""
        reasons = []
        for address in [*self._open, *self._seeds]:
            try:
                return self.ask(address, request, answer, version)
            except OSError as failure:
                reasons.append(f"{address[0]}:{address[1]}: {failure.strerror or failure}")
        raise UnreachableError(f"no broker answers: {'; '.join(reasons)}", retriable=True)

    def coordinator_of(self, transactional_id: str) -> Address | None:
        """None: there is none now."""
        request = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=[transactional_id])
        found = self.ask_any(request, FindCoordinatorResponse).coordinators[0]
        return None if found.error_code else (found.host, found.port)

    def partitions_of(self, topic: str) -> int:
        if topic not in self._counts:
            self.learn(topic)
        if topic not in self._counts:
            raise TopicNotFoundError(f"there is no topic {topic}", code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return self._counts[topic]

    def leader_of(self, at: TopicPartition) -> Address | None:
        """None: it has none now."""
        if at not in self._leaders:
            self.learn(at.topic)
        return self._leaders.get(at)

    def learn(self, topic: str) -> None:
        """Who leads what of it: to be called again when that turns out to be wrong."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=True)
        answer = self.ask_any(request, MetadataResponse, METADATA_VERSION)
        addresses = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        self._leaders = {at: leader for at, leader in self._leaders.items() if at.topic != topic}
        for found in answer.topics:
            if found.error_code:
                continue
            self._counts[topic] = len(found.partitions)
            for partition in found.partitions:
                if partition.leader_id in addresses:
                    at = TopicPartition(topic, partition.partition_index)
                    self._leaders[at] = addresses[partition.leader_id]

    def _connection(self, address: Address) -> socket.socket:
        connection = self._open.get(address)
        if connection is None:
            connection = self._open[address] = socket.create_connection(address, CONNECT_TIMEOUT_S)
            connection.settimeout(REQUEST_TIMEOUT_S)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), int(port)
