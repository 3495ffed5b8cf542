"""Looking after a cluster: topics, configs, groups and their offsets, records.

Every call goes to the cluster and waits for the answer; what comes back are the values of `ottla.client.cluster`.
Failures are exceptions of `ottla.client.errors`; a call about several things raises BatchError, which names those that
failed (the others were done). A partition is `(topic, partition)`; results have `ottla.types.TopicPartition`, which is
such a tuple with names. An Admin may be shared by threads.

    Admin(config: AdminConfig | None = None, *, bootstrap_servers=None)       also a context manager

    create_topic(name, *, partitions=None, replication_factor=None, config={}, validate_only=False)
    create_topics([NewTopic], *, validate_only=False)
    delete_topic(name)                      delete_topics(names)
    list_topics(*, include_internal=False)  -> [TopicSummary]        sorted by name
    describe_topic(name) -> TopicDescription
    describe_topics(names) -> {name: TopicDescription}
    create_partitions(topic, total, *, validate_only=False)          `total` is the new count
    delete_records({(topic, partition): before_offset}) -> {TopicPartition: new start offset}    -1: all of them

    describe_config(kind: ResourceType, name) -> {config name: ConfigEntry}
    alter_config(kind, name, {config name: value}, *, validate_only=False)       None: back to the default

    list_offsets({(topic, partition): timestamp | EARLIEST | LATEST | MAX_TIMESTAMP}) -> {TopicPartition: OffsetAt}
    topic_offsets(topic, timestamp) -> {TopicPartition: OffsetAt}    of all partitions

    list_groups() -> [GroupSummary]         describe_group(group) -> GroupDescription
    group_offsets(group) -> {TopicPartition: CommittedOffset}
    group_lag(group) -> [GroupPartitionLag] in records and seconds
    set_group_offsets(group, {(topic, partition): offset})
    reset_group(group, *, topics=(), timestamp=EARLIEST, offset=None, dry_run=False) -> {TopicPartition: offset}
    delete_group(group)                     delete_groups(groups)

    describe_cluster() -> ClusterDescription
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as RawPartition
from confluent_kafka import admin as raw

from ottla.client import admin_convert as convert
from ottla.client.cluster import (
    EARLIEST,
    LATEST,
    ClusterDescription,
    CommittedOffset,
    ConfigEntry,
    GroupDescription,
    GroupPartitionLag,
    GroupSummary,
    NewTopic,
    OffsetAt,
    Offsets,
    ResourceType,
    TopicDescription,
    TopicSummary,
)
from ottla.client.errors import BatchError, ClientError, ClosedError, GroupNotFoundError, TimedOutError
from ottla.client.lag import lag_of
from ottla.client.librdkafka import logger, on_error, to_error, translated
from ottla.client.settings import AdminConfig, Servers
from ottla.errors import ErrorCode
from ottla.types import TopicPartition

Key = TypeVar("Key")
T = TypeVar("T")


class Admin:
    """See the head of the module for all that it does."""

    def __init__(self, config: AdminConfig | None = None, *, bootstrap_servers: Servers | None = None) -> None:
        if config is None:
            config = AdminConfig(bootstrap_servers=bootstrap_servers or "localhost:9092")
        self.config = config
        self._timeout_s = config.request_timeout_ms / 1000
        with translated("connecting"):
            self._open: Any = raw.AdminClient({**config.librdkafka(), "error_cb": on_error}, logger=logger)

    @property
    def _raw(self) -> Any:
        if self._open is None:
            raise ClosedError("the admin was closed")
        return self._open

    def close(self) -> None:
        """Let go of the connections. There is nothing else to be lost."""
        self._open = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # Topics

    def create_topic(
        self,
        name: str,
        *,
        partitions: int | None = None,
        replication_factor: int | None = None,
        config: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> None:
        topic = NewTopic(
            name=name, partitions=partitions, replication_factor=replication_factor, config=dict(config or {})
        )
        self._create([topic], validate_only).one()

    def create_topics(self, topics: Iterable[NewTopic], *, validate_only: bool = False) -> None:
        self._create(list(topics), validate_only).all()

    def _create(self, topics: list[NewTopic], validate_only: bool) -> "_Answers[str, None]":
        return self._ask(
            "creating topics",
            lambda: self._raw.create_topics(
                [convert.new_topic(topic) for topic in topics], validate_only=validate_only, **self._timeouts()
            ),
        )

    def delete_topic(self, name: str) -> None:
        self._delete([name]).one()

    def delete_topics(self, names: Iterable[str]) -> None:
        self._delete(list(names)).all()

    def _delete(self, names: list[str]) -> "_Answers[str, None]":
        return self._ask("deleting topics", lambda: self._raw.delete_topics(names, **self._timeouts()))

    def list_topics(self, *, include_internal: bool = False) -> list[TopicSummary]:
        with translated("listing topics"):
            metadata = self._raw.list_topics(timeout=self._timeout_s)
        topics = [convert.topic_summary(topic) for _, topic in sorted(metadata.topics.items())]
        return [topic for topic in topics if include_internal or not topic.internal]

    def describe_topic(self, name: str) -> TopicDescription:
        return convert.topic_description(self._describe([name]).one())

    def describe_topics(self, names: Iterable[str]) -> dict[str, TopicDescription]:
        found = self._describe(list(names)).all()
        return {name: convert.topic_description(description) for name, description in found.items()}

    def _describe(self, names: list[str]) -> "_Answers[str, Any]":
        return self._ask(
            "describing topics",
            lambda: self._raw.describe_topics(TopicCollection(names), request_timeout=self._timeout_s),
        )

    def create_partitions(self, topic: str, total: int, *, validate_only: bool = False) -> None:
        self._ask(
            "adding partitions",
            lambda: self._raw.create_partitions(
                [raw.NewPartitions(topic, total)], validate_only=validate_only, **self._timeouts()
            ),
        ).one()

    def delete_records(self, before: Offsets) -> dict[TopicPartition, int]:
        answers = self._ask(
            "deleting records", lambda: self._raw.delete_records(convert.to_raw(before), **self._timeouts())
        )
        return {convert.from_raw(at): deleted.low_watermark for at, deleted in answers.all().items()}

    # Configs

    def describe_config(self, kind: ResourceType, name: str) -> dict[str, ConfigEntry]:
        resource = raw.ConfigResource(convert.RESOURCES[kind], name)
        answers = self._ask(
            "reading configs", lambda: self._raw.describe_configs([resource], request_timeout=self._timeout_s)
        )
        return {key: convert.config_entry(entry) for key, entry in sorted(answers.one().items())}

    def alter_config(
        self,
        kind: ResourceType,
        name: str,
        values: Mapping[str, str | None],
        *,
        validate_only: bool = False,
    ) -> None:
        change = convert.config_changes(kind, name, values)
        self._ask(
            "changing configs",
            lambda: self._raw.incremental_alter_configs(
                [change], validate_only=validate_only, request_timeout=self._timeout_s
            ),
        ).one()

    # Offsets

    def list_offsets(self, at: Offsets) -> dict[TopicPartition, OffsetAt]:
        if not at:
            return {}
        wanted = {RawPartition(topic, partition): convert.offset_spec(ms) for (topic, partition), ms in at.items()}
        answers = self._ask(
            "listing offsets", lambda: self._raw.list_offsets(wanted, request_timeout=self._timeout_s)
        ).all()
        return {convert.from_raw(partition): convert.offset_at(info) for partition, info in answers.items()}

    def topic_offsets(self, topic: str, timestamp: int = LATEST) -> dict[TopicPartition, OffsetAt]:
        partitions = self.describe_topic(topic).partitions
        return self.list_offsets({(topic, info.partition): timestamp for info in partitions})

    # Groups

    def list_groups(self) -> list[GroupSummary]:
        with translated("listing groups"):
            listed = self._wait(self._raw.list_consumer_groups(request_timeout=self._timeout_s))
        if listed.errors and not listed.valid:
            raise to_error(listed.errors[0].args[0], "listing groups")
        return sorted((convert.group_summary(listing) for listing in listed.valid), key=lambda group: group.group_id)

    def describe_group(self, group: str) -> GroupDescription:
        answers: _Answers[str, Any] = self._ask(
            "describing groups",
            lambda: self._raw.describe_consumer_groups([group], request_timeout=self._timeout_s),
        )
        description = convert.group_description(answers.one())
        if description.state == "Dead":  # what a broker says of a group that it does not know
            raise GroupNotFoundError(f"there is no group {group!r}", code=ErrorCode.GROUP_ID_NOT_FOUND)
        return description

    def group_offsets(self, group: str) -> dict[TopicPartition, CommittedOffset]:
        answers: _Answers[str, Any] = self._ask(
            "reading group offsets",
            lambda: self._raw.list_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(group)], request_timeout=self._timeout_s
            ),
        )
        found = [partition for partition in answers.one().topic_partitions or () if partition.offset >= 0]
        return {convert.from_raw(at): convert.committed(at) for at in sorted(found, key=convert.from_raw)}

    def group_lag(self, group: str) -> list[GroupPartitionLag]:
        """Of every partition that the group has an offset in or reads at the moment."""
        owners = {at: member for member in self.describe_group(group).members for at in member.partitions}
        offsets = {at: committed.offset for at, committed in self.group_offsets(group).items()}
        positions: dict[TopicPartition, int | None] = {at: offsets.get(at) for at in sorted({*owners, *offsets})}
        lags = lag_of(
            positions,
            start=self.list_offsets(dict.fromkeys(positions, EARLIEST)),
            end=self.list_offsets(dict.fromkeys(positions, LATEST)),
            settings=self.config.librdkafka(),
            now_ms=int(time.time() * 1000),
        )
        return [GroupPartitionLag(lag=lag, member=owners.get(lag.partition)) for lag in lags]

    def set_group_offsets(self, group: str, offsets: Offsets) -> None:
        """The group must have no members."""
        if not offsets:
            return
        request = ConsumerGroupTopicPartitions(group, convert.to_raw(offsets))
        answers: _Answers[str, Any] = self._ask(
            "setting group offsets",
            lambda: self._raw.alter_consumer_group_offsets([request], request_timeout=self._timeout_s),
        )
        failed = [partition for partition in answers.one().topic_partitions if partition.error is not None]
        if failed:
            raise BatchError({str(convert.from_raw(at)): to_error(at.error) for at in failed})

    def reset_group(
        self,
        group: str,
        *,
        topics: Sequence[str] = (),
        timestamp: int = EARLIEST,
        offset: int | None = None,
        dry_run: bool = False,
    ) -> dict[TopicPartition, int]:
        """Move a group without members to the first record at or after `timestamp` (or EARLIEST, LATEST), or to
        `offset`, kept within what each partition holds. Without topics: those that the group has offsets in."""
        chosen = topics or sorted({at.topic for at in self.group_offsets(group)})
        ends = {at: found.offset for topic in chosen for at, found in self.topic_offsets(topic, LATEST).items()}
        if offset is None:
            found = self.list_offsets(dict.fromkeys(ends, timestamp))
            target = {at: found[at].offset if found[at].offset >= 0 else end for at, end in ends.items()}
        else:
            starts = self.list_offsets(dict.fromkeys(ends, EARLIEST))
            target = {at: min(max(offset, starts[at].offset), end) for at, end in ends.items()}
        if not dry_run:
            self.set_group_offsets(group, target)
        return target

    def delete_group(self, group: str) -> None:
        self._delete_groups([group]).one()

    def delete_groups(self, groups: Iterable[str]) -> None:
        self._delete_groups(list(groups)).all()

    def _delete_groups(self, groups: list[str]) -> "_Answers[str, None]":
        return self._ask(
            "deleting groups", lambda: self._raw.delete_consumer_groups(groups, request_timeout=self._timeout_s)
        )

    # The cluster

    def describe_cluster(self) -> ClusterDescription:
        with translated("describing the cluster"):
            answer = self._wait(self._raw.describe_cluster(request_timeout=self._timeout_s))
        brokers = (convert.broker(node) for node in answer.nodes)
        return ClusterDescription(
            cluster_id=answer.cluster_id,
            controller=convert.broker(answer.controller),
            brokers=tuple(sorted((found for found in brokers if found is not None), key=lambda found: found.id)),
        )

    def _timeouts(self) -> dict[str, float]:
        return {"request_timeout": self._timeout_s, "operation_timeout": self._timeout_s}

    def _wait(self, future: "Future[T]") -> T:
        # librdkafka ends a request at its own time-out; the second more only guards against a bug there.
        try:
            return future.result(self._timeout_s + 1)
        except TimeoutError as late:
            raise TimedOutError("the cluster did not answer in time", retriable=True) from late

    def _ask(self, doing: str, call: Callable[[], "Mapping[Key, Future[T]]"]) -> "_Answers[Key, T]":
        with translated(doing):
            futures = call()
        return _Answers(doing, futures, self._wait)


class _Answers(Generic[Key, T]):
    """The futures of one request about one or several things."""

    def __init__(self, doing: str, futures: "Mapping[Key, Future[T]]", wait: "Callable[[Future[T]], T]") -> None:
        self._doing = doing
        self._futures = futures
        self._wait = wait

    def one(self) -> T:
        """The answer about the only thing asked about."""
        [(key, future)] = self._futures.items()
        with translated(f"{self._doing} ({_name(key)})"):
            return self._wait(future)

    def all(self) -> dict[Key, T]:
        done: dict[Key, T] = {}
        errors: dict[str, ClientError] = {}
        for key, future in self._futures.items():
            try:
                done[key] = self._wait(future)
            except KafkaException as failure:
                errors[_name(key)] = to_error(failure.args[0], self._doing)
        if errors:
            raise BatchError(errors)
        return done


def _name(key: Any) -> str:
    """Of a topic, a group, a resource or a partition."""
    if isinstance(key, str):
        return key
    return str(key.name) if isinstance(key, raw.ConfigResource) else str(convert.from_raw(key))
