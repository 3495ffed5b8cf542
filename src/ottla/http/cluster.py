"""The whole cluster behind one object: requests go to whoever leads or coordinates, and follow when that changes.

A request that a broker refuses since it is not the right one, or that could not be sent, is tried again elsewhere until
its time is up. A produce request that was cut off is not: it may have been carried out, and the caller is told so.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any, TypeVar

from ottla.errors import BrokerError, ErrorCode
from ottla.http.ways import ANY, CHANNEL, GRACE_MS, HELD, Ways, answer_of
from ottla.metadata.image import NO_LEADER
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.protocol.schema import Request

T = TypeVar("T")

GROUP = 0
RETRY_MS = 50
MOVED = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)
"""Nothing was done: somebody else, or the same a little later, may do it."""
CUT_OFF = frozenset({ErrorCode.NETWORK_EXCEPTION})


class Deadline:
    __slots__ = ("_at",)

    def __init__(self, timeout_ms: float) -> None:
        self._at = time.monotonic() + timeout_ms / 1000

    @property
    def left_ms(self) -> int:
        return max(0, int((self._at - time.monotonic()) * 1000))


class Cluster:
    def __init__(self, ways: Ways, *, timeout_ms: int) -> None:
        self.ways = ways
        self.timeout_ms = timeout_ms
        self._coordinators: dict[str, int] = {}
        self._lanes: list[str] = []
        """Channels for requests that are held, of which none is at the moment."""
        self._lane_numbers = count()

    async def ask(
        self,
        request: Request,
        *,
        node_id: int = ANY,
        version: int | None = None,
        timeout_ms: int | None = None,
        channel: str = CHANNEL,
    ) -> Any:
        """One attempt at one broker."""
        return await self.take(
            request, lambda answer: answer, node_id=node_id, version=version, timeout_ms=timeout_ms, channel=channel
        )

    async def take(
        self,
        request: Request,
        take: Callable[[Any], T],
        *,
        node_id: int = ANY,
        version: int | None = None,
        timeout_ms: int | None = None,
        channel: str = CHANNEL,
    ) -> T:
        """The same, of which `take` takes what is wanted."""
        patience_ms = (self.timeout_ms if timeout_ms is None else timeout_ms) + GRACE_MS
        is_held = channel is HELD and node_id != self.ways.own_id
        if is_held:
            channel = self._lanes.pop() if self._lanes else f"{HELD}-{next(self._lane_numbers)}"
        try:
            deferred = self.ways.send(node_id, request, version=version, timeout_ms=patience_ms, channel=channel)
            return await answer_of(deferred, patience_ms, take)
        finally:
            if is_held:
                self._lanes.append(channel)

    async def leader_of(self, topic: str, partition: int, deadline: Deadline) -> int:
        """Raises UNKNOWN_TOPIC_OR_PARTITION, or LEADER_NOT_AVAILABLE if none is elected in time."""
        leader = self.ways.leader(topic, partition)
        if leader is None:
            await self.ways.refresh(topic)
            leader = self.ways.leader(topic, partition)
        while leader == NO_LEADER and deadline.left_ms > RETRY_MS:
            await self.pause(topic)
            leader = self.ways.leader(topic, partition)
        if leader is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {partition} of {topic}.")
        if leader == NO_LEADER:
            raise BrokerError(ErrorCode.LEADER_NOT_AVAILABLE)
        return leader

    async def pause(self, topic: str) -> None:
        await asyncio.sleep(RETRY_MS / 1000)
        await self.ways.refresh(topic)

    async def at_leader(
        self,
        topic: str,
        partition: int,
        request: Request,
        take: Callable[[Any], T],
        *,
        version: int | None = None,
        wait_ms: int = 0,
        channel: str = CHANNEL,
    ) -> T:
        """`take` raises BrokerError for what the leader refuses; where that may change, it is asked again."""
        deadline = Deadline(self.timeout_ms)
        while True:
            try:
                leader = await self.leader_of(topic, partition, deadline)
                return await self.take(
                    request,
                    take,
                    node_id=leader,
                    version=version,
                    timeout_ms=deadline.left_ms + wait_ms,
                    channel=channel,
                )
            except BrokerError as error:
                if error.code not in MOVED | CUT_OFF or deadline.left_ms <= RETRY_MS:
                    raise
            await self.pause(topic)

    async def at_coordinator(
        self,
        group: str,
        request: Request,
        take: Callable[[Any], T],
        *,
        timeout_ms: int | None = None,
        channel: str = CHANNEL,
    ) -> T:
        deadline = Deadline(self.timeout_ms if timeout_ms is None else timeout_ms)
        while True:
            try:
                coordinator = await self.coordinator_of(group)
                await self.ways.meet(coordinator)
                return await self.take(request, take, node_id=coordinator, timeout_ms=deadline.left_ms, channel=channel)
            except BrokerError as error:
                if error.code not in MOVED | CUT_OFF or deadline.left_ms <= RETRY_MS:
                    raise
                self._coordinators.pop(group, None)
            await asyncio.sleep(RETRY_MS / 1000)

    async def coordinator_of(self, group: str) -> int:
        known = self._coordinators.get(group)
        if known is None:
            if len(self._coordinators) > COORDINATORS_MAX:
                self._coordinators.clear()
            request = FindCoordinatorRequest(key_type=GROUP, coordinator_keys=[group])
            known = await self.take(request, _coordinator)
            self._coordinators[group] = known
        return known

    async def everywhere(self, request: Request, nodes: Iterable[int]) -> dict[int, Any]:
        """The answers of those that gave one."""
        wanted = list(nodes)
        for node_id in wanted:
            await self.ways.meet(node_id)
        answers = await asyncio.gather(
            *(self.ask(request, node_id=node_id) for node_id in wanted), return_exceptions=True
        )
        return {
            node_id: answer
            for node_id, answer in zip(wanted, answers, strict=True)
            if not isinstance(answer, BaseException)
        }


COORDINATORS_MAX = 10_000


def _coordinator(answer: FindCoordinatorResponse) -> int:
    found = answer.coordinators[0]
    if found.error_code:
        raise BrokerError(ErrorCode(found.error_code), found.error_message or "")
    return found.node_id
