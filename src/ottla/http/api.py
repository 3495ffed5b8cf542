"""The API as an object: what the routes call, and what they all share."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from typing import Any, Protocol

from ottla.config.http import HttpConfig
from ottla.http.admin import Admin
from ottla.http.cluster import Cluster
from ottla.http.consume import Consuming, Slice
from ottla.http.errors import bad_request
from ottla.http.groups import Groups
from ottla.http.messages import Encoding, read_messages
from ottla.http.produce import Attempt, Producing, Told, unknown_topic
from ottla.http.tails import Tails
from ottla.http.topics import Topics
from ottla.http.ways import Ways
from ottla.ports import Clock

LIMIT_DEFAULT = "10"


class Surroundings(Protocol):
    """What is known of the process itself: of a node much, of a gateway little."""

    async def health(self, cluster: Cluster) -> dict[str, Any]:
        """At least `live`, `ready` and `why` (not)."""

    async def metrics(self) -> list[str]:
        """Lines in Prometheus' text format."""

    def segments(self, topic: str, partition: int) -> list[dict[str, Any]] | None:
        """Of the replica in this process; None if there is none."""


class Api:
    def __init__(self, ways: Ways, config: HttpConfig, clock: Clock, surroundings: Surroundings) -> None:
        self.config = config
        self.cluster = Cluster(ways, timeout_ms=config.request_timeout_ms)
        self.producing = Producing(self.cluster, clock)
        self.consuming = Consuming(
            self.cluster,
            records_max=config.batch_records_max,
            bytes_max=config.answer_bytes_max,
            wait_ms_max=config.wait_ms_max,
        )
        self.topics = Topics(self.cluster, self.consuming)
        self.admin = Admin(self.cluster, self.topics)
        self.tails = Tails(self.consuming, config.streams_max)
        self.groups = Groups(self.cluster, self.consuming, clock)
        self._surroundings = surroundings

    async def create_topic(
        self,
        topic: str,
        *,
        partitions: int | None,
        replicas: int | None,
        rack_awareness: bool,
        configs: Mapping[str, str | None],
    ) -> dict[str, Any]:
        if not rack_awareness:
            raise bad_request(
                "rack_awareness can't be false: replicas always go to different racks where there are any."
            )
        return await self.topics.create(topic, partitions=partitions, replicas=replicas, configs=configs)

    async def describe_partition(self, topic: str, partition: int) -> dict[str, Any]:
        found = await self.topics.partition(topic, partition)
        return {**found, "segments": self._surroundings.segments(topic, partition)}

    async def partition_count(self, topic: str) -> int:
        if self.cluster.ways.partition_count(topic) is None:
            await self.cluster.ways.refresh(topic)
        known = self.cluster.ways.partition_count(topic)
        if known is None:
            raise unknown_topic(topic)
        return known

    def begin_produce(
        self, topic: str, body: bytes, content_type: str, query: Mapping[str, str]
    ) -> Attempt | Coroutine[Any, Any, Told]:
        """As `produce`, but what can be done without a task is done already."""
        messages, single = read_messages(body, content_type, self.config.batch_records_max)
        encoding = _encoding(query) if query else Encoding.TEXT
        attempt = self.producing.attempt(topic, messages, encoding, single=single)
        return attempt or self.producing.produce(topic, messages, encoding, single=single)

    async def produce(self, topic: str, body: bytes, content_type: str, query: Mapping[str, str]) -> Told:
        messages, single = read_messages(body, content_type, self.config.batch_records_max)
        return await self.producing.produce(
            topic, messages, _encoding(query) if query else Encoding.TEXT, single=single
        )

    async def consume(self, topic: str, partition: str, query: Mapping[str, str]) -> tuple[int, Slice]:
        found = await self.consuming.consume(
            topic,
            number("partition", partition, at_least=0),
            query.get("offset", "0"),
            limit=number("limit", query.get("limit", LIMIT_DEFAULT), at_least=1),
            wait_ms=number("wait_ms", query.get("wait_ms", "0"), at_least=0),
            encoding=_encoding(query),
        )
        return 200, found

    async def list_groups(self) -> list[dict[str, Any]]:
        brokers = (await self.topics.metadata([])).brokers
        return await self.groups.all([broker.node_id for broker in brokers])

    async def health(self) -> dict[str, Any]:
        return await self._surroundings.health(self.cluster)

    async def metrics(self) -> str:
        return "\n".join(await self._surroundings.metrics()) + "\n"


def number(name: str, text: str, *, at_least: int, at_most: int = 2**31 - 1) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 10 or not at_least <= int(text) <= at_most:
        raise bad_request(f"{name} is {text[:40]!r}; it must be a number from {at_least} to {at_most}.")
    return int(text)


def _encoding(query: Mapping[str, str]) -> Encoding:
    try:
        return Encoding(query.get("encoding", Encoding.TEXT))
    except ValueError:
        raise bad_request(f"encoding is {query['encoding'][:40]!r}; it must be text, json or base64.") from None
