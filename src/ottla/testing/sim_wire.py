"""One connection of a simulated client, in Kafka's own wire format, and the client's view of the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from ottla.errors import ErrorCode
from ottla.protocol.codec import codec_for
from ottla.protocol.framing import FRAME_SIZE, encode_request, parse_response_header, response_header_is_flexible
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.schema import Request

if TYPE_CHECKING:
    from random import Random

    from ottla.testing.sim_loop import SimLoop

Address = tuple[str, int]
METADATA_VERSION = 12
REQUEST_TIMEOUT_S = 3.0


class UnavailableError(Exception):
    """No answer: the connection can't be made, broke, or is silent. What was asked may have been done."""


class Wire(asyncio.Protocol):
    """Requests go out with numbers; answers find their way back by them."""

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._waiting: dict[int, tuple[Request, int, asyncio.Future[Any]]] = {}
        self._number = 0
        self.is_broken = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_broken = True
        waiting, self._waiting = self._waiting, {}
        for _, _, future in waiting.values():
            if not future.done():
                future.set_exception(UnavailableError(f"the connection broke: {exc}"))

    def data_received(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= FRAME_SIZE.size:
            (size,) = FRAME_SIZE.unpack_from(self._received)
            end = FRAME_SIZE.size + size
            if len(self._received) < end:
                return
            frame = bytes(self._received[FRAME_SIZE.size : end])
            del self._received[:end]
            self._answered(memoryview(frame))

    def _answered(self, frame: memoryview) -> None:
        number, _ = parse_response_header(frame, flexible=False)
        request, version, future = self._waiting.pop(number)
        _, body_at = parse_response_header(frame, response_header_is_flexible(type(request), version))
        answer, _ = codec_for(type(request).response, version).decode(frame, body_at)
        if not future.done():
            future.set_result(answer)

    def send(self, request: Request, version: int) -> asyncio.Future[Any]:
        """The answer, when it comes."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        future.add_done_callback(_look_at)
        if self.is_broken or self._transport is None:
            future.set_exception(UnavailableError("the connection is broken"))
            return future
        self._number += 1
        self._waiting[self._number] = (request, version, future)
        frame = encode_request(request, version, correlation_id=self._number, client_id=self._client_id)
        self._transport.write(b"".join(frame))
        return future

    def close(self) -> None:
        """As a client that has lost patience: nothing is waited for."""
        self.is_broken = True
        if self._transport is not None:
            self._transport.abort()


class Cluster:
    """Where brokers, leaders and coordinators are, as one client knows it; one connection to each broker."""

    def __init__(self, loop: SimLoop, bootstrap: Sequence[Address], *, client_id: str, dice: Random) -> None:
        self.loop = loop
        self.client_id = client_id
        self.dice = dice
        self._bootstrap = list(bootstrap)
        self._wires: dict[Address, Wire] = {}
        self._brokers: dict[int, Address] = {}
        self._leaders: dict[tuple[str, int], int] = {}

    async def wire(self, address: Address) -> Wire:
        wire = self._wires.get(address)
        if wire is not None and not wire.is_broken:
            return wire
        try:
            _, made = await self.loop.create_connection(lambda: Wire(self.client_id), *address)
        except OSError as error:
            raise UnavailableError(str(error)) from error
        wire = self._wires[address] = cast(Wire, made)
        return wire

    async def ask(
        self, address: Address, request: Request, version: int, *, timeout_s: float = REQUEST_TIMEOUT_S
    ) -> Any:
        wire = await self.wire(address)
        return await self.patiently(wire, wire.send(request, version), timeout_s)

    async def patiently(self, wire: Wire, answer: asyncio.Future[Any], timeout_s: float = REQUEST_TIMEOUT_S) -> Any:
        """A client whose request is not answered hangs up, so that a late answer is no trouble to it."""
        try:
            return await asyncio.wait_for(answer, timeout_s)
        except TimeoutError as error:
            wire.close()
            raise UnavailableError("no answer in time") from error

    async def ask_any(self, request: Request, version: int) -> Any:
        return await self.ask(self.dice.choice(self._bootstrap), request, version)

    async def leader(self, topic: str, partition: int) -> Address:
        leader_id = self._leaders.get((topic, partition))
        if leader_id is None:
            await self._refresh(topic)
            leader_id = self._leaders.get((topic, partition))
        if leader_id is None or leader_id not in self._brokers:
            raise UnavailableError(f"{topic}-{partition} has no leader")
        return self._brokers[leader_id]

    def forget_leaders(self) -> None:
        """Something went wrong with one of them: ask again."""
        self._leaders.clear()

    async def _refresh(self, topic: str) -> None:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        answer = await self.ask_any(request, METADATA_VERSION)
        self._brokers = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        for known in answer.topics:
            for partition in known.partitions:
                if partition.error_code == ErrorCode.NONE:
                    self._leaders[topic, partition.partition_index] = partition.leader_id

    def close(self) -> None:
        for wire in self._wires.values():
            with suppress(UnavailableError):
                wire.close()


def _look_at(future: asyncio.Future[Any]) -> None:
    """An answer that nobody waits for any more may be an error: that is no news to anybody."""
    if not future.cancelled():
        future.exception()


async def pause(dice: Random, seconds_max: float) -> None:
    await asyncio.sleep(dice.uniform(0, seconds_max))
