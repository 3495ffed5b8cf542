"""How a Kafka request gets to a broker: through this node's own handlers, or over the wire.

Both ways give the same: the broker's answer, or BrokerError. What is done with record data of an answer must be done
inside `take`, since the bytes are only valid until it returns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from ottla.errors import BrokerError, ErrorCode
from ottla.protocol.schema import Request
from ottla.runtime.controller_channel import client_address
from ottla.runtime.local import LocalDoor
from ottla.runtime.node import Node
from ottla.services import Deferred

T = TypeVar("T")

ANY = -1
"""In place of a node id: whichever answers."""
CHANNEL = "http"
HELD = "http-held"
"""For requests that may be held: answers of one connection come in order, so each of these has one of its own."""
GRACE_MS = 1_000
"""A broker that is asked to answer within a time gets this much more before it is given up."""


class Ways(Protocol):
    own_id: int
    """The node in this process, or ANY where there is none."""

    def send(
        self, node_id: int, request: Request, *, version: int | None, timeout_ms: int, channel: str
    ) -> Deferred[Any]: ...

    def partition_count(self, topic: str) -> int | None:
        """None if the topic is not known here (yet)."""

    def leader(self, topic: str, partition: int) -> int | None:
        """A node id; NO_LEADER if there is none now, None if the partition is not known here (yet)."""

    async def meet(self, node_id: int) -> None:
        """Find out where a broker is, if that is not known."""

    async def refresh(self, topic: str) -> None:
        """Find out about a topic that is not known, or whose leader was not where it should be."""


class NodeWays:
    """Those of a node: itself, and its links to the others."""

    def __init__(self, node: Node) -> None:
        self.own_id = node.config.node_id
        self._node = node
        self._door = LocalDoor(node.router, node, client_id="ottla-http")

    def send(
        self, node_id: int, request: Request, *, version: int | None, timeout_ms: int, channel: str
    ) -> Deferred[Any]:
        if node_id in (ANY, self.own_id):
            return self._door.handle(request, version)
        address = client_address(self._node.image, node_id)
        if address is None:
            return failed(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {node_id} is not there at the moment")
        return self._node.broker_client.send(address, request, version=version, timeout_ms=timeout_ms, channel=channel)

    def partition_count(self, topic: str) -> int | None:
        known = self._node.image.topics.get(topic)
        return None if known is None else len(known.partitions)

    def leader(self, topic: str, partition: int) -> int | None:
        known = self._node.image.partition(topic, partition)
        return None if known is None else known.leader

    async def meet(self, node_id: int) -> None:
        """The image says it."""

    async def refresh(self, topic: str) -> None:
        """The image comes by itself."""


def failed(code: ErrorCode, message: str) -> Deferred[Any]:
    refused: Deferred[Any] = Deferred()
    refused.fail(BrokerError(code, message))
    return refused


async def answer_of(deferred: Deferred[Any], timeout_ms: int, take: Callable[[Any], T]) -> T:
    """The answer, changed by `take` as soon as it is there. BrokerError if it is an error or does not come."""
    if deferred.done:
        if deferred.error is not None:
            raise deferred.error
        return take(deferred.value)
    future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    deferred.on_done(lambda done: _settle(future, done, take))
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            return await future
    except TimeoutError:
        raise BrokerError(ErrorCode.REQUEST_TIMED_OUT) from None
    finally:
        if not deferred.done:
            deferred.abandon()


def _settle(future: asyncio.Future[T], done: Deferred[Any], take: Callable[[Any], T]) -> None:
    if future.done():
        return
    if done.error is not None:
        future.set_exception(done.error)
        return
    try:
        future.set_result(take(done.value))
    except Exception as error:
        future.set_exception(error)
