"""A client's view of the cluster: which brokers there are, and who leads what, as far as it has been told.

As real clients do: any broker is asked, of what it says about a partition the higher leader epoch is believed, and
after a refusal or silence another broker is asked. A broker that refuses may say who leads instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ottla.errors import ErrorCode
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.testing.history import LeaderSeen, Outcome
from ottla.testing.sim_wire import Address, UnavailableError, Wire
from ottla.types import TopicPartition

if TYPE_CHECKING:
    from random import Random

    from ottla.protocol.schema import Request
    from ottla.testing.history import History
    from ottla.testing.sim_loop import SimLoop

METADATA_VERSION = 12
REQUEST_TIMEOUT_S = 3.0
NO_EPOCH = -1


class Leader(NamedTuple):
    node_id: int
    epoch: int
    address: Address


class ClusterView:
    """One connection to each broker."""

    def __init__(
        self, loop: SimLoop, bootstrap: Sequence[Address], *, client_id: str, dice: Random, history: History
    ) -> None:
        self.loop = loop
        self.client_id = client_id
        self.dice = dice
        self._history = history
        self._bootstrap = list(bootstrap)
        self._wires: dict[Address, Wire] = {}
        self._brokers: dict[int, Address] = {}
        self._leaders: dict[TopicPartition, tuple[int, int]] = {}
        """Node id and leader epoch. Ids of those that are no longer trusted are forgotten, epochs never are."""
        self._epochs: dict[TopicPartition, int] = {}

    # Asking.

    async def wire(self, address: Address) -> Wire:
        wire = self._wires.get(address)
        if wire is not None and not wire.is_broken:
            return wire
        try:
            connecting = self.loop.create_connection(lambda: Wire(self.client_id), *address)
            _, made = await asyncio.wait_for(connecting, REQUEST_TIMEOUT_S)
        except (OSError, TimeoutError) as error:
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

    async def ask_any(self, request: Request, version: int, *, timeout_s: float = REQUEST_TIMEOUT_S) -> Any:
        return await self.ask(self.any_broker(), request, version, timeout_s=timeout_s)

    def any_broker(self) -> Address:
        return self.dice.choice(sorted({*self._bootstrap, *self._brokers.values()}))

    # Leaders.

    async def leader(self, partition: TopicPartition) -> Leader:
        if partition not in self._leaders:
            await self.refresh([partition.topic])
        node_id, epoch = self._leaders.get(partition, (-1, NO_EPOCH))
        if node_id not in self._brokers:
            self._leaders.pop(partition, None)
            raise UnavailableError(f"{partition} has no leader")
        return Leader(node_id, epoch, self._brokers[node_id])

    def forget_leaders(self) -> None:
        """Something went wrong with one of them: ask again."""
        self._leaders.clear()

    def told(self, partition: TopicPartition, current_leader: Any, endpoints: Iterable[Any] = ()) -> None:
        """A broker that does not lead says who does."""
        if current_leader.leader_epoch > self._epochs.get(partition, NO_EPOCH) and current_leader.leader_id >= 0:
            self._brokers.update({node.node_id: (node.host, node.port) for node in endpoints})
            self._believe(partition, current_leader.leader_id, current_leader.leader_epoch)

    async def refresh(self, topics: Iterable[str], broker: Address | None = None) -> MetadataResponse:
        """Ask a broker, any if none is named, who leads what."""
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=topic) for topic in topics], allow_auto_topic_creation=False
        )
        broker = broker or self.any_broker()
        began = self.loop.time()
        answer: MetadataResponse = await self.ask(broker, request, METADATA_VERSION)
        self._brokers = {known.node_id: (known.host, known.port) for known in answer.brokers}
        for topic in answer.topics:
            for data in topic.partitions:
                partition = TopicPartition(topic.name or "", data.partition_index)
                self._remember(broker, began, partition, data.leader_id, data.leader_epoch)
                if data.error_code == ErrorCode.NONE and data.leader_epoch >= self._epochs.get(partition, NO_EPOCH):
                    self._believe(partition, data.leader_id, data.leader_epoch)
        return answer

    def _believe(self, partition: TopicPartition, node_id: int, epoch: int) -> None:
        self._leaders[partition] = (node_id, epoch)
        self._epochs[partition] = epoch

    def _remember(self, broker: Address, began: float, partition: TopicPartition, leader: int, epoch: int) -> None:
        seen = LeaderSeen(
            client=self.client_id, began=began, broker=broker[0], partition=partition, leader=leader, epoch=epoch
        )
        seen.end(Outcome.OK, self.loop.time())
        self._history.add(seen)

    def close(self) -> None:
        for wire in self._wires.values():
            with suppress(UnavailableError):
                wire.close()
