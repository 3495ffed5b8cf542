"""Topics, their partitions, and the messages in them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Query, Request, Response

from ottla.http.messages import Encoding
from ottla.http.routes.models import (
    MessageIn,
    Messages,
    NewTopic,
    Open,
    PartitionIndex,
    TopicName,
    Written,
    api_of,
)

router = APIRouter(tags=["topics"])


@router.post("/topics/{topic}", status_code=201)
async def create_topic(request: Request, topic: TopicName, wanted: Annotated[NewTopic | None, Body()] = None) -> Open:
    """Make a topic."""
    asked = wanted or NewTopic()
    return await api_of(request).create_topic(
        topic,
        partitions=asked.num_partitions,
        replicas=asked.replication_factor,
        rack_awareness=asked.rack_awareness,
        configs={name: _text(value) for name, value in asked.configs.items()},
    )


def _text(value: str | float | bool | None) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    return None if value is None else str(value)


@router.get("/topics")
async def list_topics(request: Request) -> Open:
    """All topics."""
    return {"topics": await api_of(request).topics.all()}


@router.get("/topics/{topic}")
async def describe_topic(request: Request, topic: TopicName) -> Open:
    """A topic's partitions and configs."""
    return await api_of(request).topics.describe(topic)


@router.delete("/topics/{topic}", status_code=204)
async def delete_topic(request: Request, topic: TopicName) -> Response:
    """Delete a topic and all that is in it."""
    await api_of(request).topics.delete(topic)
    return Response(status_code=204)


@router.get("/topics/{topic}/partitions/{partition}")
async def describe_partition(request: Request, topic: TopicName, partition: PartitionIndex) -> Open:
    """Leader, replicas, those in sync, offsets and sizes; segments too, if this node has a replica."""
    return await api_of(request).describe_partition(topic, partition)


@router.post("/topics/{topic}/produce", response_model=Written)
async def produce(
    request: Request,
    topic: TopicName,
    messages: MessageIn | list[MessageIn],
    encoding: Annotated[Encoding, Query(description="base64: strings stand for their bytes.")] = Encoding.TEXT,
) -> Any:
    """Write a message, or a list of them; with the content type application/x-ndjson, one per line.

    Answered when all are as safe as asked for: with acks=all on the disks of all replicas in sync.
    """
    return (await api_of(request).produce(topic, await request.body(), "", dict(request.query_params)))[1]


@router.get("/topics/{topic}/partitions/{partition}/consume", response_model=Messages)
async def consume(
    request: Request,
    topic: TopicName,
    partition: PartitionIndex,
    offset: Annotated[
        str, Query(description="A number, earliest, latest, a time (2026-11-15T14:00:00Z), or @ and milliseconds.")
    ] = "0",
    limit: Annotated[int, Query(ge=1)] = 10,
    wait_ms: Annotated[int, Query(ge=0, description="How long to wait if there is nothing yet.")] = 0,
    encoding: Annotated[Encoding, Query(description="How values are shown.")] = Encoding.TEXT,
) -> Any:
    """Read messages of one partition."""
    return (await api_of(request).consume(topic, str(partition), dict(request.query_params)))[1]
