"""What bodies look like: for validation, and for the OpenAPI document."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Path, Request
from pydantic import BaseModel, ConfigDict, Field

from ottla.http.api import Api

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

TopicName = Annotated[str, Path(min_length=1, max_length=249, pattern=r"^[a-zA-Z0-9._-]+$")]
PartitionIndex = Annotated[int, Path(ge=0, le=INT32_MAX)]
GroupName = Annotated[str, Path(min_length=1, max_length=32_767)]


def api_of(request: Request) -> Api:
    api: Api = request.app.state.api
    return api


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Failure(BaseModel):
    code: str = Field(description="Stable; for programs.")
    kafka_error: str | None = Field(description="Kafka's name for it, if it has one.")
    message: str = Field(description="For people.")


class Problem(BaseModel):
    error: Failure


class NewTopic(Strict):
    num_partitions: int | None = Field(
        default=None, ge=1, le=100_000, description="The cluster's default if not given."
    )
    replication_factor: int | None = Field(default=None, ge=1, le=32_767)
    rack_awareness: bool = Field(
        default=True, description="Replicas go to different racks where there are enough; this can't be switched off."
    )
    configs: dict[str, str | int | float | bool | None] = Field(default_factory=dict)


class MessageIn(Strict):
    key: Any = Field(default=None, description="A string, or any JSON value, which is written as JSON text.")
    value: Any = None
    headers: dict[str, str | None] | list[tuple[str, str | None]] | None = None
    partition: int | None = Field(default=None, ge=0, le=INT32_MAX, description="By the key if not given.")
    acks: Literal["all", -1, 0, 1] | None = Field(default=None, description="all if not given.")


class Written(BaseModel):
    topic: str
    partition: int | None = None
    offset: int | None = Field(default=None, description="Of the message, where there was one.")
    count: int | None = Field(default=None, description="How many, where there was a list.")
    partitions: list[dict[str, int | None]] | None = Field(
        default=None, description="For each partition: the offset of its first message, and how many there are."
    )


class MessageOut(BaseModel):
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: Any
    value: Any
    headers: list[tuple[str, str | None]]
    encoding: str | None = Field(description="Where it is not the one asked for: the bytes are not text, or not JSON.")


class Messages(BaseModel):
    topic: str
    partition: int
    records: list[MessageOut]
    next_offset: int = Field(description="Where to go on.")
    high_watermark: int
    log_start_offset: int


Open = dict[str, Any]
