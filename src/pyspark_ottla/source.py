"""The source: `spark.read` and `spark.readStream` with format("ottla").

The driver decides which offsets a batch reads; tasks read them. The offset of a stream is

    {"offsets": {"orders": {"0": 17, "1": 4}}, "ids": {"orders": "<topic id>"}}

with the topic ids because a topic that is deleted and made again starts anew: its offsets say nothing of the old one's.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from pyspark_ottla.decoding import COLUMNS, Range
from pyspark_ottla.fetching import DataLossError, FetchSettings, read_range
from pyspark_ottla.offsets import Partition, commit_offsets
from pyspark_ottla.options import SourceOptions
from pyspark_ottla.planning import limit_offsets, plan_tasks
from pyspark_ottla.subscription import Subscription
from pyspark_ottla.values import TypedValues
from pyspark_ottla.wire import Topic, WireError
from pyspark_ottla.workers import connected

__all__ = ["BatchReader", "StreamReader"]

log = logging.getLogger(__name__)


class Task(InputPartition):
    """The ranges that one Spark task reads, one after the other."""

    def __init__(self, ranges: Sequence[Range]) -> None:
        super().__init__(None)
        self.ranges = list(ranges)


class _Reads:
    """What batch and stream have in common: the part that runs in tasks."""

    def __init__(self, options: SourceOptions, values: TypedValues | None = None) -> None:
        self._options = options
        self._values = values
        """None: they stay as they are."""

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Task)
        options = self._options
        settings = FetchSettings(
            isolation=options.isolation,
            partition_bytes_max=options.fetch_bytes,
            wait_ms_max=options.fetch_wait_ms,
            timeout_s=options.timeout_ms / 1000,
            fails_on_data_loss=options.fails_on_data_loss,
            checks_crcs=options.checks_crcs,
        )
        schema = COLUMNS if options.includes_headers else COLUMNS.remove(COLUMNS.get_field_index("headers"))
        with connected(options.bootstrap, settings.timeout_s, options.client_id) as cluster:
            for wanted in partition.ranges:
                batches = read_range(cluster, wanted, schema, settings)
                yield from batches if self._values is None else map(self._values.typed, batches)

    def _tasks(
        self, start: Mapping[Partition, int], end: Mapping[Partition, int], ids: Mapping[str, bytes]
    ) -> list[InputPartition]:
        ranges = [
            Range(topic=topic, topic_id=ids[topic], partition=partition, start=start[topic, partition], end=upto)
            for (topic, partition), upto in end.items()
        ]
        return [Task(task) for task in plan_tasks(ranges, self._options.tasks_min, self._options.records_per_task_max)]


class BatchReader(_Reads, DataSourceReader):
    """Between two offsets of each partition that are fixed when the query is planned."""

    def partitions(self) -> Sequence[InputPartition]:
        subscription = Subscription(self._options)
        try:
            topics = subscription.topics()
            partitions = subscription.partitions(topics)
            start = subscription.offsets_at(self._options.start, partitions, starting=True)
            end = subscription.offsets_at(self._options.end, partitions, starting=False)
            return self._tasks(start, end, _ids(topics))
        finally:
            subscription.close()


class StreamReader(_Reads, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Lives in one process beside the driver while the query runs; its copies in the tasks only read."""

    def __init__(self, options: SourceOptions, values: TypedValues | None = None) -> None:
        super().__init__(options, values)
        self._subscription: Subscription | None = None
        self._initial: dict[str, Any] | None = None
        """Where the query began. Spark asks more than once, and records come in between."""
        self._last: dict[str, Any] | None = None
        """The newest offset that was seen, for Spark's progress."""
        self._upto: dict[str, Any] | None = None
        """With Trigger.AvailableNow: where the query ends."""
        self._last_batch_s = time.monotonic()
        self._committed: dict[str, Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_subscription": None, "_initial": None, "_last": None}

    @property
    def _topics(self) -> Subscription:
        if self._subscription is None:
            self._subscription = Subscription(self._options)
        return self._subscription

    # Where to

    def initialOffset(self) -> dict[str, Any]:
        if self._initial is None:
            topics = self._topics.topics()
            partitions = self._topics.partitions(topics)
            start = self._topics.offsets_at(self._options.start, partitions, starting=True)
            self._initial = _offset(start, _ids(topics))
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:
        if self._options.offsets_max is not None:
            return ReadMaxRows(self._options.offsets_max)
        if self._options.offsets_min is not None:
            return ReadMinRows(self._options.offsets_min)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._upto = self._newest()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        self.commit(start)  # Spark is through with it, but says so only after the next batch, if one comes
        self._last = self._newest()
        end = self._upto or self._last
        if isinstance(limit, ReadAllAvailable):
            return end
        begin = self._begin(start, end)
        upto = _offsets(end)
        if self._upto is None and self._should_wait(sum(upto[at] - begin[at] for at in upto)):
            return start
        self._last_batch_s = time.monotonic()
        if isinstance(limit, ReadMaxRows):
            return _offset(limit_offsets(begin, upto, limit.max_rows), _topic_ids(end))
        return end

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return self._last

    def _newest(self) -> dict[str, Any]:
        topics = self._topics.topics()
        return _offset(self._topics.latest(self._topics.partitions(topics)), _ids(topics))

    def _should_wait(self, available: int) -> bool:
        wanted = self._options.offsets_min
        waited_ms = (time.monotonic() - self._last_batch_s) * 1000
        return wanted is not None and available < wanted and waited_ms < self._options.delay_ms_max

    # What

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        self._check_topics(start, end)
        begin, upto = self._begin(start, end), _offsets(end)
        if start != self._initial:
            self._check_order(begin, upto)
        start_at = {at: min(offset, upto[at]) for at, offset in begin.items()}
        return self._tasks(start_at, upto, _topic_ids(end))

    def _begin(self, start: dict[str, Any], end: dict[str, Any]) -> dict[Partition, int]:
        """Where each partition of `end` goes on; new ones, and those of topics made anew, from their beginning."""
        known, old_ids, ids = _offsets(start), _topic_ids(start), _topic_ids(end)
        begin = {at: known[at] for at in _offsets(end) if at in known and old_ids[at[0]] == ids[at[0]]}
        new = [at for at in _offsets(end) if at not in begin]
        return {**begin, **(self._topics.earliest(new) if new else {})}

    def _check_topics(self, start: dict[str, Any], end: dict[str, Any]) -> None:
        ids = _topic_ids(end)
        for topic, topic_id in _topic_ids(start).items():
            if topic not in ids:
                self._lost(f"topic {topic} was deleted: what the query had not read of it is lost")
            elif ids[topic] != topic_id:
                self._lost(f"topic {topic} was deleted and made again: what was not read of the old one is lost")

    def _check_order(self, begin: dict[Partition, int], upto: dict[Partition, int]) -> None:
        """Not for the first batch: if it is run again, `latest` is a later one than that which it began with."""
        for (topic, partition), offset in begin.items():
            if upto[topic, partition] < offset:
                self._lost(f"{topic}-{partition} ends at {upto[topic, partition]}, where {offset} had been read")

    def _lost(self, what: str) -> None:
        if self._options.fails_on_data_loss:
            raise DataLossError(f"{what}. Set failOnDataLoss to false to go on.")
        log.warning("%s; going on, as failOnDataLoss is false", what)

    # Afterwards

    def commit(self, end: dict[str, Any]) -> None:
        """Spark keeps its own offsets; those of the group are for everybody who looks at its lag."""
        if end == self._committed:
            return
        try:
            commit_offsets(self._topics.cluster, self._options.group, _offsets(end))
            self._committed = end
        except WireError as error:
            log.warning("the offsets of group %s could not be committed: %s", self._options.group, error)

    def stop(self) -> None:
        if self._subscription is not None:
            self._subscription.close()


def _ids(topics: Mapping[str, Topic]) -> dict[str, bytes]:
    return {name: topic.topic_id for name, topic in topics.items()}


def _offset(offsets: Mapping[Partition, int], ids: Mapping[str, bytes]) -> dict[str, Any]:
    by_topic: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        by_topic.setdefault(topic, {})[str(partition)] = offset
    return {"offsets": by_topic, "ids": {topic: ids[topic].hex() for topic in by_topic}}


def _offsets(offset: dict[str, Any]) -> dict[Partition, int]:
    return {
        (topic, int(partition)): number
        for topic, several in offset["offsets"].items()
        for partition, number in several.items()
    }


def _topic_ids(offset: dict[str, Any]) -> dict[str, bytes]:
    ids: Iterable[tuple[str, str]] = offset["ids"].items()
    return {topic: bytes.fromhex(topic_id) for topic, topic_id in ids}
