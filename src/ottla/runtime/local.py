"""Requests from inside the process: the same handlers as for clients, without the wire.

For a program that hosts the node it talks to (`ottla.embedded`). Only to be used in the node's thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from ottla.errors import BrokerError, ErrorCode
from ottla.ports import Bytes
from ottla.protocol.messages.produce import (
    ACKS_ALL,
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.protocol.schema import Request
from ottla.runtime.dispatch import Router
from ottla.services import Deferred, RequestContext, Services
from ottla.storage.log import Origin

TIMEOUT_MS = 30_000
PRODUCE_VERSION = 11
"""The newest that names topics and not their ids."""

Appended: TypeAlias = dict[int, int | BrokerError]
"""By partition: the offset of the first record, or why there is none."""


class LocalDoor:
    """Serves requests as if a client on this machine had sent them."""

    def __init__(self, router: Router, services: Services, *, client_id: str = "embedded") -> None:
        self._router = router
        self._context = RequestContext(services, "127.0.0.1")
        self._context.client_id = client_id

    def handle(self, request: Request, api_version: int | None = None) -> Deferred[Any]:
        """The answer, or the BrokerError with which it was refused. In the newest version if none is given."""
        if api_version is None:
            api_version = self._router.newest(request)
        route = self._router.routes.get(request.api_key << 16 | api_version)
        if route is None:
            route = self._router.resolve(request.api_key, api_version)
        context = self._context
        context.api_version = api_version
        context.now_ms = context.services.clock.now_ms()
        try:
            answer = route.handler(request, context)
        except BrokerError as error:
            refused: Deferred[Any] = Deferred()
            refused.fail(error)
            return refused
        if isinstance(answer, Deferred):
            return answer
        ready: Deferred[Any] = Deferred()
        ready.complete(answer)
        return ready

    def append(self, topic: str, batches: Mapping[int, Bytes]) -> Deferred[Appended]:
        """Write one batch to each of some partitions, as a Produce with acks=all that asks for the same.

        That is what the queue does for every message that somebody waits for, so where nobody follows and nobody is
        held back no message is made of it, in or out: half of what a turn costs.
        """
        services = self._context.services
        if services.quotas.active or services.partitions.has_followers or services.room.is_full:
            return self.handle(_request(topic, batches), PRODUCE_VERSION).then(_appended)
        partitions, committer, now_ms = services.partitions, services.committer, services.clock.now_ms()
        appended: Appended = {}
        for index, batch in batches.items():
            try:
                partition = partitions.get(topic, index)
                appended[index] = committer.append(partition, batch, now_ms=now_ms, origin=Origin.CLIENT)
            except BrokerError as error:
                services.refusals.count("Produce", error.code.name)
                appended[index] = error
        return committer.after_commit(appended, _not_durable)


def _not_durable(appended: Appended, error: BrokerError) -> Appended:
    return {index: told if isinstance(told, BrokerError) else error for index, told in appended.items()}


def _request(topic: str, batches: Mapping[int, Bytes]) -> ProduceRequest:
    data = [PartitionProduceData(index=index, records=batch) for index, batch in batches.items()]
    return ProduceRequest(
        acks=ACKS_ALL, timeout_ms=TIMEOUT_MS, topic_data=[TopicProduceData(name=topic, partition_data=data)]
    )


def _appended(response: ProduceResponse) -> Appended:
    return {
        told.index: BrokerError(ErrorCode(told.error_code), told.error_message or "")
        if told.error_code
        else told.base_offset
        for topic in response.responses
        for told in topic.partition_responses
    }
