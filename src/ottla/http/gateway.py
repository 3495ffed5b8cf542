"""`ottla gateway`: the same HTTP API in a process of its own, in front of any cluster that speaks Kafka's protocol.

It knows the cluster as a client does: by Metadata requests, made anew when a leader is not where it was, and now and
then. Needs brokers of Kafka 3.0 or newer, for the versions of the requests.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import uvloop

from ottla.config import HttpConfig, NetworkConfig
from ottla.errors import BrokerError, ErrorCode, PortTakenError
from ottla.http.api import Api
from ottla.http.cluster import Cluster
from ottla.http.edge import Edge
from ottla.http.listener import HttpListener
from ottla.http.process_metrics import LoopDelay, http_metrics, process_metrics
from ottla.http.server import Front, HttpServer
from ottla.http.ways import ANY, answer_of, failed
from ottla.observability.metrics import Text
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.protocol.schema import Request
from ottla.runtime.broker_client import BrokerClient
from ottla.runtime.clock import SystemClock, SystemRandom
from ottla.runtime.timers import Timers
from ottla.services import Deferred

log = logging.getLogger(__name__)

Address = tuple[str, int]

KNOWN_FOR_S = 30.0
"""Then a topic is asked about again: it may have got partitions, or be gone."""
TOPICS_MAX = 10_000
METADATA_MS_MAX = 10_000


class KnownTopic:
    __slots__ = ("known_at_s", "leaders")

    def __init__(self, leaders: dict[int, int], known_at_s: float) -> None:
        self.leaders = leaders
        self.known_at_s = known_at_s


class GatewayWays:
    """Ways over the wire only."""

    own_id = ANY - 1
    """Nobody's: every request goes over the wire."""

    def __init__(self, client: BrokerClient, bootstrap: Sequence[Address]) -> None:
        self._client = client
        self._bootstrap = tuple(bootstrap)
        self._brokers: dict[int, Address] = {}
        self._topics: dict[str, KnownTopic] = {}

    def send(
        self, node_id: int, request: Request, *, version: int | None, timeout_ms: int, channel: str
    ) -> Deferred[Any]:
        if node_id == ANY:
            answer: Deferred[Any] = Deferred()
            self._try(self._places(), answer, request, version, timeout_ms, channel)
            return answer
        address = self._brokers.get(node_id)
        if address is None:
            return failed(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {node_id} is not known")
        return self._client.send(address, request, version=version, timeout_ms=timeout_ms, channel=channel)

    async def meet(self, node_id: int) -> None:
        """Find out where a broker is, if that is not known."""
        if node_id not in (ANY, *self._brokers):
            await self.look()

    def _places(self) -> Iterator[Address]:
        yield from self._brokers.values()
        yield from (address for address in self._bootstrap if address not in self._brokers.values())

    def _try(
        self,
        places: Iterator[Address],
        answer: Deferred[Any],
        request: Request,
        version: int | None,
        timeout_ms: int,
        channel: str,
    ) -> None:
        """One broker after the other, until one can be reached."""
        address = next(places, None)
        if address is None:
            answer.fail(BrokerError(ErrorCode.BROKER_NOT_AVAILABLE, "no broker of the cluster can be reached"))
            return

        def answered(done: Deferred[Any]) -> None:
            if done.error is None:
                answer.complete(done.value)
            elif done.error.code is ErrorCode.NETWORK_EXCEPTION:
                self._try(places, answer, request, version, timeout_ms, channel)
            else:
                answer.fail(done.error)

        sent = self._client.send(address, request, version=version, timeout_ms=timeout_ms, channel=channel)
        sent.on_done(answered)

    def partition_count(self, topic: str) -> int | None:
        known = self._topics.get(topic)
        if known is None or time.monotonic() - known.known_at_s > KNOWN_FOR_S:
            return None
        return len(known.leaders)

    def leader(self, topic: str, partition: int) -> int | None:
        known = self._topics.get(topic)
        return None if known is None else known.leaders.get(partition)

    async def refresh(self, topic: str) -> None:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        sent = self.send(ANY, request, version=None, timeout_ms=METADATA_MS_MAX, channel="http")
        self._take(await answer_of(sent, METADATA_MS_MAX, lambda answer: answer))

    def _take(self, answer: MetadataResponse) -> None:
        self._brokers = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        if len(self._topics) > TOPICS_MAX:
            self._topics.clear()
        for topic in answer.topics:
            name = topic.name or ""
            if topic.partitions:
                leaders = {partition.partition_index: partition.leader_id for partition in topic.partitions}
                self._topics[name] = KnownTopic(dict(sorted(leaders.items())), time.monotonic())
            else:
                self._topics.pop(name, None)

    async def look(self) -> int:
        """How many brokers there are."""
        sent = self.send(ANY, MetadataRequest(topics=[]), version=None, timeout_ms=METADATA_MS_MAX, channel="http")
        self._take(await answer_of(sent, METADATA_MS_MAX, lambda answer: answer))
        return len(self._brokers)


class GatewaySurroundings:
    def __init__(self, ways: GatewayWays) -> None:
        self._ways = ways
        self._delay = LoopDelay()
        self._attached: tuple[Api, Edge] | None = None

    def attach(self, api: Api, edge: Edge) -> None:
        self._attached = (api, edge)
        self._delay.start(asyncio.get_running_loop())

    async def health(self, _: Cluster) -> dict[str, Any]:
        why = []
        try:
            await self._ways.look()
        except BrokerError as error:
            why.append(f"The cluster does not answer: {error}.")
        return {"live": True, "ready": not why, "why": why, "node_id": None}

    async def metrics(self) -> list[str]:
        text = Text()
        process_metrics(text, self._delay)
        if self._attached is not None:
            http_metrics(text, *self._attached)
        return text.lines

    def segments(self, _topic: str, _partition: int) -> None:
        return None


class Gateway:
    """The API and its links to the cluster, from `open` to `close`."""

    def __init__(self, bootstrap: Sequence[Address], config: HttpConfig, front: Front | None = None) -> None:
        self._config = config
        self._bootstrap = bootstrap
        self._front = front
        self.listener = HttpListener(self._build)

    def open(self, *ports: int) -> None:
        """At the first of them that is free."""
        self._bind(ports)
        loop = asyncio.get_running_loop()
        self._timers = Timers(loop)
        self._client = BrokerClient(
            loop=loop, timers=self._timers, random=SystemRandom(), limits=NetworkConfig(), client_id="ottla-gateway"
        )
        self.listener.serve()

    def _bind(self, ports: Sequence[int]) -> None:
        for port in ports[:-1]:
            with suppress(PortTakenError):
                self.listener.bind(self._config.address, port)
                return
        self.listener.bind(self._config.address, ports[-1])

    def _build(self) -> HttpServer:
        ways = GatewayWays(self._client, self._bootstrap)
        surroundings = GatewaySurroundings(ways)
        api = Api(ways, self._config, SystemClock(), surroundings)
        server = HttpServer(api, self._front)
        surroundings.attach(api, server.edge)
        return server

    async def close(self) -> None:
        await self.listener.close()
        if self._front is not None:
            await self._front.close()
        await self._client.close()
        self._timers.close()


def run(
    bootstrap: Sequence[Address],
    config: HttpConfig,
    ports: Sequence[int],
    *,
    front: Front | None = None,
    says: str = "the HTTP API is at %s",
) -> None:
    """Serve at the first of the ports that is free, until SIGTERM or SIGINT. PortTakenError if none is."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(Gateway(bootstrap, config, front), config, ports, says))


async def _serve(gateway: Gateway, config: HttpConfig, ports: Sequence[int], says: str) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    gateway.open(*ports)
    log.info(says, f"http://{config.address or '127.0.0.1'}:{gateway.listener.port}")
    try:
        await stop.wait()
    finally:
        await gateway.close()
