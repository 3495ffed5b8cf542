"""Consumer groups: members that speak HTTP, committed offsets, and the groups as they are."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response
from pydantic import Field

from ottla.http.edge import encode
from ottla.http.messages import Encoding
from ottla.http.routes.models import INT32_MAX, INT64_MAX, GroupName, Open, PartitionIndex, Strict, TopicName, api_of
from ottla.types import TopicPartition

router = APIRouter(prefix="/consumer-groups", tags=["consumer groups"])

ConsumerId = Annotated[str, Field(min_length=1, max_length=249, pattern=r"^[a-zA-Z0-9._-]+$")]
Topic = Annotated[str, Field(min_length=1, max_length=249, pattern=r"^[a-zA-Z0-9._-]+$")]


class Registration(Strict):
    consumer_id: ConsumerId
    topics: list[Topic] = Field(min_length=1, max_length=1_000)
    session_timeout_ms: int = Field(
        default=30_000, ge=1_000, le=1_800_000, description="Without a sign of life for this long it is taken out."
    )


class Consumer(Strict):
    consumer_id: ConsumerId


class Poll(Consumer):
    limit: int = Field(default=100, ge=1, le=INT32_MAX)
    wait_ms: int = Field(default=0, ge=0, le=INT32_MAX, description="How long to wait if there is nothing yet.")
    encoding: Encoding = Encoding.TEXT


class Commit(Strict):
    offset: int = Field(ge=0, le=INT64_MAX, description="Of the next message to be read.")
    consumer_id: ConsumerId | None = Field(
        default=None, description="Whose commit it is; the one's that reads the partition here, if not given."
    )


@router.get("")
async def list_groups(request: Request) -> Open:
    """All groups."""
    return {"groups": await api_of(request).list_groups()}


@router.get("/{group}")
async def describe_group(request: Request, group: GroupName) -> Open:
    """Members, what each reads, committed offsets, and lag in records and seconds."""
    return await api_of(request).groups.describe(group)


@router.post("/{group}/register")
async def register(request: Request, group: GroupName, asked: Registration) -> Open:
    """Become a member. The node speaks for the consumer: partitions are shared with Kafka clients of the group."""
    return await api_of(request).groups.register(group, asked.consumer_id, asked.topics, asked.session_timeout_ms)


@router.post("/{group}/heartbeat")
async def heartbeat(request: Request, group: GroupName, asked: Consumer) -> Open:
    """A sign of life, needed well within the session's time-out; a poll is one too."""
    return await api_of(request).groups.heartbeat(group, asked.consumer_id)


@router.post("/{group}/poll", response_model=dict[str, Any])
async def poll(request: Request, group: GroupName, asked: Poll) -> Response:
    """The next messages of the partitions that the consumer was given. Nothing is committed by that."""
    found = await api_of(request).groups.poll(
        group, asked.consumer_id, limit=asked.limit, wait_ms=asked.wait_ms, encoding=asked.encoding
    )
    return Response(encode(found), media_type="application/json")


@router.post("/{group}/leave", status_code=204)
async def leave(request: Request, group: GroupName, asked: Consumer) -> Response:
    """Leave the group at once, so that others get the partitions."""
    await api_of(request).groups.leave(group, asked.consumer_id)
    return Response(status_code=204)


@router.post("/{group}/topics/{topic}/partitions/{partition}/commit")
async def commit(
    request: Request,
    group: Annotated[str, Path(min_length=1)],
    topic: TopicName,
    partition: PartitionIndex,
    asked: Commit,
) -> Open:
    """Say how far the group has read a partition."""
    return await api_of(request).groups.commit(group, TopicPartition(topic, partition), asked.offset, asked.consumer_id)
