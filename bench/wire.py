"""The few Kafka requests that the harness sends itself.

Startup and topic creation are measured with these few lines rather than with a client: a client connects, asks for
versions and retries on its own timers, and those would be what is measured. Written by hand and not with
`ottla.protocol`, so that the same code judges both brokers.
"""

import socket
import struct
import time
from collections.abc import Callable, Sequence
from typing import Self

_PRODUCE, _METADATA, _CREATE_TOPICS, _DELETE_TOPICS, _CREATE_PARTITIONS = 0, 3, 19, 20, 37
_PARTITIONS_AT_ONCE = 5_000
_ALREADY_EXISTS = 36
_ALL, _TIMEOUT_MS = -1, 30_000


class RequestFailedError(Exception):
    """The broker answered with an error code."""


class WireClient:
    """One connection; requests are answered one at a time."""

    def __init__(self, port: int, *, timeout_s: float = 60) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def _call(self, api_key: int, version: int, body: bytes) -> bytes:
        self._correlation_id += 1
        header = struct.pack(">hhi", api_key, version, self._correlation_id) + _string("bench")
        self._socket.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
        size = struct.unpack(">i", self._receive(4))[0]
        answer = self._receive(size)
        if struct.unpack_from(">i", answer)[0] != self._correlation_id:
            raise RequestFailedError("the answer belongs to another request")
        return answer[4:]

    def _receive(self, size: int) -> bytes:
        parts = []
        while size:
            part = self._socket.recv(min(size, 1 << 20))
            if not part:
                raise ConnectionResetError("the broker closed the connection")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def produce(self, topic: str, batch: bytes, *, partition: int = 0) -> None:
        """Produce v3 with acks=all."""
        body = struct.pack(">hhii", -1, _ALL, _TIMEOUT_MS, 1) + _string(topic)
        answer = self._call(_PRODUCE, 3, body + struct.pack(">iii", 1, partition, len(batch)) + batch)
        code = struct.unpack_from(">h", answer, _after_string(answer, 4) + 8)[0]
        if code:
            raise RequestFailedError(f"produce: error {code}")

    def broker_count(self) -> int:
        """Metadata v1 for no topic: how many brokers the cluster has."""
        brokers: int = struct.unpack_from(">i", self._call(_METADATA, 1, struct.pack(">i", 0)))[0]
        return brokers

    def leader_ports(self, topic: str) -> list[int] | None:
        """Metadata v1 for one topic: the port of the leader of each partition; None while one has none."""
        answer = self._call(_METADATA, 1, struct.pack(">i", 1) + _string(topic))
        at, ports = 4, {}
        for _ in range(struct.unpack_from(">i", answer)[0]):  # brokers: id, host, port, rack
            (broker,) = struct.unpack_from(">i", answer, at)
            at = _after_string(answer, at + 4)
            (ports[broker],) = struct.unpack_from(">i", answer, at)
            at = _after_string(answer, at + 4)
        at += 4 + 4  # controller id, topic count
        (error,) = struct.unpack_from(">h", answer, at)
        at = _after_string(answer, at + 2) + 1
        (partitions,) = struct.unpack_from(">i", answer, at)
        at += 4
        leaders: dict[int, int] = {}
        for _ in range(partitions):  # error, index, leader, replicas, isr
            error_of_one, index, leader, replicas = struct.unpack_from(">hiii", answer, at)
            (isr,) = struct.unpack_from(">i", answer, at + 14 + 4 * replicas)
            at += 18 + 4 * replicas + 4 * isr
            if error_of_one or leader not in ports or isr < replicas:
                return None
            leaders[index] = ports[leader]
        return [leaders[index] for index in sorted(leaders)] if leaders and not error else None

    def create_topics(self, names: Sequence[str], *, partitions: int, replicas: int = 1) -> None:
        """CreateTopics v2, all names in one request. Where there are replicas, writers wait for two of them.

        No name is used twice, so one that exists already is this request's. Kafka on three nodes has answered so after
        a pause: that a broker sent it on to the controller twice is the likely reason.
        """
        configs = {"min.insync.replicas": "2"} if replicas > 1 else {}
        pairs = struct.pack(">i", len(configs)) + b"".join(_string(k) + _string(v) for k, v in configs.items())
        body = [struct.pack(">i", len(names))]
        body += [_string(name) + struct.pack(">ihi", partitions, replicas, 0) + pairs for name in names]
        body.append(struct.pack(">i?", 60_000, False))
        answer = self._call(_CREATE_TOPICS, 2, b"".join(body))
        _raise_errors(answer, 4, with_message=True, but=_ALREADY_EXISTS)

    def create_topic(self, name: str, *, partitions: int, replicas: int = 1) -> None:
        """A topic of any size: Kafka refuses to make ten thousand partitions in one request."""
        self.create_topics([name], partitions=min(partitions, _PARTITIONS_AT_ONCE), replicas=replicas)
        for so_far in range(_PARTITIONS_AT_ONCE, partitions, _PARTITIONS_AT_ONCE):
            self._create_partitions(name, min(so_far + _PARTITIONS_AT_ONCE, partitions))

    def _create_partitions(self, name: str, count: int) -> None:
        """CreatePartitions v0, tried again until the topic is known everywhere."""
        body = struct.pack(">i", 1) + _string(name) + struct.pack(">iii?", count, -1, 60_000, False)
        deadline = time.monotonic() + 60
        while True:
            try:
                return _raise_errors(self._call(_CREATE_PARTITIONS, 0, body), 4, with_message=True)
            except RequestFailedError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def delete_topics(self, names: Sequence[str]) -> None:
        """DeleteTopics v1."""
        body = struct.pack(">i", len(names)) + b"".join(map(_string, names)) + struct.pack(">i", 60_000)
        _raise_errors(self._call(_DELETE_TOPICS, 1, body), 4, with_message=False)


def wait_until_ready(port: int, *, within_s: float, brokers: int, is_alive: Callable[[], bool]) -> float:
    """The time of the first Metadata answer that names so many brokers, tried again every millisecond."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline and is_alive():
        try:
            with WireClient(port, timeout_s=within_s) as client:
                while client.broker_count() < brokers and time.monotonic() < deadline:
                    time.sleep(0.001)
                return time.monotonic()
        except OSError:
            time.sleep(0.001)
    raise TimeoutError(f"no answer on port {port} within {within_s:g} s" if is_alive() else "the server ended")


def wait_for_leaders(port: int, topic: str, *, within_s: float = 120) -> list[int]:
    """Kafka answers CreateTopics before its own metadata knows the leaders; wait until a producer could start.

    Returns the port of each partition's leader.
    """
    deadline = time.monotonic() + within_s
    with WireClient(port) as client:
        began = time.monotonic()
        while (ports := client.leader_ports(topic)) is None:
            now = time.monotonic()
            if now > deadline:
                raise TimeoutError(f"{topic} has no leaders after {within_s:g} s")
            time.sleep(max(0.005, now - began))  # an answer on ten thousand partitions is work for the broker
            began = time.monotonic()
        return ports


def _string(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">h", len(encoded)) + encoded


def _after_string(data: bytes, at: int) -> int:
    return int(at + 2 + max(struct.unpack_from(">h", data, at)[0], 0))


def _raise_errors(answer: bytes, at: int, *, with_message: bool, but: int = 0) -> None:
    (count,) = struct.unpack_from(">i", answer, at)
    at += 4
    for _ in range(count):
        name_at, at = at, _after_string(answer, at)
        (error,) = struct.unpack_from(">h", answer, at)
        if error not in (0, but):
            raise RequestFailedError(f"{answer[name_at + 2 : at].decode()}: error code {error}")
        at += 2
        if with_message:
            at = _after_string(answer, at)
