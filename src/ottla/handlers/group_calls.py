"""What the handlers of group APIs share: who asks, and how failures are told.

A coordinator that can't write says that it is not the coordinator, whatever its disk or its log said: that makes every
client look for the coordinator again and retry, where a storage error would end some of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from ottla.errors import BrokerError, ErrorCode
from ottla.groups.shard import Caller, GroupShard
from ottla.metadata.image import MetadataImage
from ottla.replicated import Result, Token
from ottla.services import Deferred, RequestContext

T = TypeVar("T")

AS_COORDINATOR: Mapping[ErrorCode, ErrorCode] = {
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def caller(ctx: RequestContext) -> Caller:
    """The host in the way Java prints an address, which is what Kafka's tools show."""
    return Caller(ctx.client_id or "", f"/{ctx.client_host}", ctx.api_version)


def ask(
    ctx: RequestContext,
    group_id: str,
    decide: Callable[[GroupShard, Token, int], Result[Any, T]],
    refused: Callable[[ErrorCode], T] | None = None,
) -> Deferred[T]:
    """Let the group's shard decide. `refused` makes the answer of APIs that have no place for one error of all."""
    answer: Deferred[T] = Deferred()

    def refuse(error: BrokerError) -> None:
        code = AS_COORDINATOR.get(error.code, error.code)
        if refused is None:
            answer.fail(BrokerError(code, error.message))
        else:
            answer.complete(refused(code))

    def done(asked: Deferred[T]) -> None:
        if asked.error is not None:
            refuse(asked.error)
        else:
            answer.complete(asked.value)  # type: ignore[arg-type]  # no error, so there is a value

    try:
        ctx.groups.call(group_id, decide).on_done(done)
    except BrokerError as error:
        refuse(error)
    return answer


class NamedPartitions(Protocol):
    """A topic with some of its partitions, as several requests have them."""

    @property
    def name(self) -> str: ...

    @property
    def partitions(self) -> Sequence[Any]: ...


def unknown_partitions(image: MetadataImage, topics: Sequence[NamedPartitions]) -> Collection[tuple[str, int]]:
    """The partitions of a request that do not exist."""
    return {
        (topic.name, asked.partition_index)
        for topic in topics
        for asked in topic.partitions
        if image.partition(topic.name, asked.partition_index) is None
    }
