"""A synchronous client of the Kafka protocol: one socket per broker, one request at a time unless asked otherwise.

Spark's workers are processes of their own that live for one task or one batch, so there is nothing to keep in the
background: no threads, no refresh of metadata. What fails because leaders or coordinators moved is asked again with
fresh metadata until `timeout_s` is over; what fails for a reason that does not pass is raised as `WireError`.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar, cast

import numpy as np

from ottla.errors import ErrorCode
from ottla.protocol.codec import codec_for
from ottla.protocol.framing import encode_request, parse_response_header, response_header_is_flexible
from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.protocol.schema import Request

__all__ = ["CLIENT_ID", "GROUP", "PASSING", "TRANSACTION", "Broker", "Cluster", "Topic", "WireError"]

GROUP: Final = 0
TRANSACTION: Final = 1
"""Kinds of coordinators."""
CLIENT_ID: Final = "ottla-spark"
RETRY_PAUSE_S: Final = 0.05
SOCKET_BUFFER_BYTES: Final = 4 * 1024 * 1024
VERSIONS_VERSION: Final = 3
UNSTABLE_FROM: Final = {22: 5}
"""InitProducerId v6 is not stable in Kafka: it is used only where it is asked for."""

PASSING: Final = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.REPLICA_NOT_AVAILABLE,
    }
)
"""What may be better when it is tried again."""

Answer = TypeVar("Answer")


class WireError(Exception):
    """A broker's refusal, or a cluster that can't be reached."""

    def __init__(self, code: ErrorCode, what: str) -> None:
        super().__init__(code, what)
        self.code = code
        self.what = what

    def __str__(self) -> str:
        return f"{self.what}: {self.code.name}"


class Broker:
    """One connection. `send` and `receive` come in pairs, in order; `ask` is both."""

    def __init__(self, host: str, port: int, timeout_s: float, client_id: str) -> None:
        self.host, self.port = host, port
        self._client_id = client_id
        try:
            self._socket = socket.create_connection((host, port), timeout=timeout_s)
        except OSError as error:
            raise WireError(ErrorCode.NETWORK_EXCEPTION, f"{host}:{port} can't be reached ({error})") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SOCKET_BUFFER_BYTES)
        self._correlation_id = 0
        self._waiting: list[tuple[type[Request], int]] = []
        self._versions: dict[int, tuple[int, int]] = {}
        try:
            answer: ApiVersionsResponse = self._asked(
                ApiVersionsRequest(client_software_name="ottla-spark", client_software_version="1"), VERSIONS_VERSION
            )
        except BaseException:
            self.close()
            raise
        self._versions = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
        self.features = {feature.name: feature.max_version_level for feature in answer.finalized_features}

    def version_of(self, request: type[Request], at_most: int | None = None) -> int:
        """The highest version that both sides know."""
        low, high = self._versions.get(request.api_key, (0, -1))
        ours = min(request.versions[1], UNSTABLE_FROM.get(request.api_key, request.versions[1]))
        version = min(high, ours if at_most is None else at_most)
        if version < max(low, request.versions[0]):
            raise WireError(ErrorCode.UNSUPPORTED_VERSION, f"{self.host}:{self.port} does not serve {request.__name__}")
        return version

    def serves(self, request: type[Request], version: int) -> bool:
        low, high = self._versions.get(request.api_key, (0, -1))
        return low <= version <= high

    def send(self, request: Request, version: int | None = None) -> None:
        if version is None:
            version = self.version_of(type(request))
        self._correlation_id += 1
        pieces = encode_request(request, version, correlation_id=self._correlation_id, client_id=self._client_id)
        try:
            self._socket.sendall(b"".join(pieces))
        except OSError as error:
            raise self._lost(error) from error
        self._waiting.append((type(request), version))

    def receive(self) -> Any:
        """The answer to the oldest request. Record data in it is a view into a buffer that is its own."""
        if not self._waiting:
            raise WireError(ErrorCode.NETWORK_EXCEPTION, f"{self.host}:{self.port}: nothing was sent")
        request, version = self._waiting.pop(0)
        frame = self._read(struct.unpack(">i", self._read(4))[0])
        _, at = parse_response_header(frame, response_header_is_flexible(request, version))
        answer, _ = codec_for(request.response, version).decode(frame, at)
        return answer

    def ask(self, request: Request, version: int | None = None) -> Any:
        return self._asked(request, self.version_of(type(request)) if version is None else version)

    def _asked(self, request: Request, version: int) -> Any:
        assert not self._waiting, "the answer to another request would be taken for this one's"
        self.send(request, version)
        return self.receive()

    def _read(self, size_bytes: int) -> memoryview:
        view = np.empty(size_bytes, np.uint8).data  # not zeroed, as a bytearray would be
        at = 0
        try:
            while at < size_bytes:
                got = self._socket.recv_into(view[at:])
                if not got:
                    raise ConnectionResetError("closed by the broker")
                at += got
        except OSError as error:
            raise self._lost(error) from error
        return view

    def _lost(self, error: OSError) -> WireError:
        self.close()
        return WireError(ErrorCode.NETWORK_EXCEPTION, f"{self.host}:{self.port} is lost ({error})")

    def close(self) -> None:
        self._socket.close()


class Topic:
    """A topic as the cluster described it: its id, and the leader of each partition (-1: none now)."""

    __slots__ = ("leaders", "name", "topic_id")

    def __init__(self, name: str, topic_id: bytes, leaders: dict[int, int]) -> None:
        self.name, self.topic_id, self.leaders = name, topic_id, leaders


class Cluster:
    """The brokers behind some addresses."""

    def __init__(self, bootstrap: str, *, timeout_s: float = 60.0, client_id: str = CLIENT_ID) -> None:
        self._client_id = client_id
        self._bootstrap = [_address(part) for part in bootstrap.split(",") if part.strip()]
        self.timeout_s = timeout_s
        self._addresses: dict[int, tuple[str, int]] = {}
        self._connections: dict[tuple[str, int], Broker] = {}
        self._coordinators: dict[tuple[int, str], tuple[str, int]] = {}
        self._topics: dict[str, Topic] = {}

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        for broker in self._connections.values():
            broker.close()
        self._connections.clear()

    # Trying again

    def persist(self, attempt: Callable[[], Answer]) -> Answer:
        """What `attempt` returns, once it does not fail for a passing reason. It forgets what it knew in between."""
        deadline = time.monotonic() + self.timeout_s
        while True:
            try:
                return attempt()
            except WireError as error:
                if error.code not in PASSING or time.monotonic() > deadline:
                    raise
                self.forget()
                time.sleep(RETRY_PAUSE_S)

    def forget(self) -> None:
        """Leaders and coordinators may have moved, and connections be lost."""
        self.close()
        self._topics.clear()
        self._coordinators.clear()

    def forget_topics(self) -> None:
        self._topics.clear()

    # Brokers

    def any_broker(self) -> Broker:
        if self._connections:
            return next(iter(self._connections.values()))
        refusals = []
        for address in [*self._bootstrap, *self._addresses.values()]:
            try:
                return self._connected(address)
            except WireError as error:
                refusals.append(error.what)
        raise WireError(ErrorCode.NETWORK_EXCEPTION, "; ".join(refusals))

    def brokers(self) -> list[Broker]:
        """All of them."""
        self._describe([])
        return [self._connected(address) for address in self._addresses.values()]

    def leader(self, topic: str, partition: int) -> Broker:
        found = self.topics([topic])[topic]
        node = found.leaders.get(partition)
        if node is None:
            raise WireError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic}-{partition}")
        if node not in self._addresses:
            raise WireError(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic}-{partition}")
        return self._connected(self._addresses[node])

    def coordinator(self, kind: int, key: str) -> Broker:
        address = self._coordinators.get((kind, key))
        if address is None:
            address = self._coordinators[kind, key] = self._find_coordinator(kind, key)
        return self._connected(address)

    def _find_coordinator(self, kind: int, key: str) -> tuple[str, int]:
        broker = self.any_broker()
        version = broker.version_of(FindCoordinatorRequest, at_most=4)
        request = FindCoordinatorRequest(key=key, key_type=kind, coordinator_keys=[key])
        answer: FindCoordinatorResponse = broker.ask(request, version)
        found: Any = answer.coordinators[0] if version >= 4 else answer
        check(found.error_code, f"the coordinator of {key}")
        return found.host, found.port

    def _connected(self, address: tuple[str, int]) -> Broker:
        broker = self._connections.get(address)
        if broker is None:
            broker = self._connections[address] = Broker(*address, self.timeout_s, self._client_id)
        return broker

    # Topics

    def topics(self, names: Iterable[str]) -> dict[str, Topic]:
        """Those of `names` that exist; UNKNOWN_TOPIC_OR_PARTITION for the first that does not."""
        wanted = list(names)
        missing = [name for name in wanted if name not in self._topics]
        if missing:
            for name, (code, topic) in self._describe(missing).items():
                check(code, f"topic {name}")
                self._topics[name] = topic
        return {name: self._topics[name] for name in wanted}

    def all_topics(self) -> dict[str, Topic]:
        found = self._describe(None)
        return {name: topic for name, (code, topic) in found.items() if code == ErrorCode.NONE}

    def _describe(self, names: list[str] | None) -> dict[str, tuple[int, Topic]]:
        request = MetadataRequest(
            topics=None if names is None else [MetadataRequestTopic(name=name) for name in names],
            allow_auto_topic_creation=False,
        )
        answer: MetadataResponse = self.any_broker().ask(request)
        self._addresses = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        return {
            cast(str, topic.name): (
                topic.error_code,
                Topic(
                    cast(str, topic.name),
                    bytes(topic.topic_id),
                    {partition.partition_index: partition.leader_id for partition in topic.partitions},
                ),
            )
            for topic in answer.topics
        }


def check(code: int, what: str) -> None:
    if code:
        raise WireError(ErrorCode(code), what)


def _address(part: str) -> tuple[str, int]:
    host, _, port = part.strip().rpartition(":")
    if not host or not port.isdigit():
        raise ValueError(f"bootstrap.servers: {part!r} is not host:port")
    return host.strip("[]"), int(port)
