"""A node that has only groups: what the handlers of group APIs need of one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypeVar, cast

from ottla.errors import BrokerError, ErrorCode
from ottla.groups.records import GroupRecord
from ottla.groups.shard import GroupShard
from ottla.metadata.features import SUPPORTED_FEATURES
from ottla.metadata.image import MetadataImage, PartitionImage, TopicImage, empty_image
from ottla.replicated import Result, Token
from ottla.services import Deferred, RequestContext, Services
from tests.groups.harness import CONFIG, Dice

T = TypeVar("T")

NOW_MS = 1_700_000_000_000


class GroupNode:
    """Topic t has two partitions. `failure` is what every call fails with, as if this were not the coordinator."""

    def __init__(self) -> None:
        self.shard = GroupShard(CONFIG, Dice())
        self.failure: BrokerError | None = None
        self.groups = self
        self.image = image_of("t", 2)

    def call(self, group_id: str, decide: Callable[[GroupShard, Token, int], Result[GroupRecord, T]]) -> Deferred[T]:
        if self.failure is not None:
            raise self.failure
        asked: Deferred[T] = Deferred()
        result = decide(self.shard, asked, NOW_MS)
        for record in result.records:
            self.shard.replay(record)
        if result.response is not None:
            asked.complete(result.response)
        return asked

    def shards(self) -> Iterable[GroupShard]:
        return [self.shard]

    def context(self, api_version: int) -> RequestContext:
        context = RequestContext(cast(Services, self), "10.0.0.7")
        context.client_id = "client"
        context.api_version = api_version
        return context

    def ask(self, handler: Callable[[Any, RequestContext], Any], request: object, api_version: int) -> Any:
        """The answer of a handler, at once or by a Deferred that is done."""
        answer = handler(request, self.context(api_version))
        if not isinstance(answer, Deferred):
            return answer
        assert answer.done
        if answer.error is not None:
            raise answer.error
        return answer.value


class FailingCommitNode(GroupNode):
    """Decisions are made, but what they lead to does not become durable."""

    def call(self, group_id: str, decide: Callable[[GroupShard, Token, int], Result[GroupRecord, T]]) -> Deferred[T]:
        asked: Deferred[T] = Deferred()
        decide(self.shard, asked, NOW_MS)
        asked.fail(BrokerError(ErrorCode.KAFKA_STORAGE_ERROR))
        return asked


def image_of(topic: str, partitions: int) -> MetadataImage:
    partition = PartitionImage(leader=0, leader_epoch=0, replicas=(0,), isr=(0,), partition_epoch=0)
    image = TopicImage(name=topic, topic_id=bytes(16), partitions=dict.fromkeys(range(partitions), partition))
    return replace(empty_image(SUPPORTED_FEATURES), topics={topic: image})
