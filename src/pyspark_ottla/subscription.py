"""What the driver knows of the topics that a query reads: which partitions there are, and where they begin and end."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ottla.errors import ErrorCode
from pyspark_ottla.offsets import EARLIEST, LATEST, READ_UNCOMMITTED, Partition, list_offsets
from pyspark_ottla.options import Boundary, OptionsError, SourceOptions
from pyspark_ottla.wire import Cluster, Topic, WireError

__all__ = ["Subscription"]


class Subscription:
    """Asked anew each time: topics and partitions come and go while a query runs."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self.cluster = Cluster(options.bootstrap, timeout_s=options.timeout_ms / 1000, client_id=options.client_id)

    def close(self) -> None:
        self.cluster.close()

    def topics(self) -> dict[str, Topic]:
        return self.cluster.persist(self._topics)

    def _topics(self) -> dict[str, Topic]:
        self.cluster.forget_topics()
        if self._options.pattern is not None:
            wanted = re.compile(self._options.pattern)
            return {name: topic for name, topic in self.cluster.all_topics().items() if wanted.fullmatch(name)}
        names = self._options.topics or tuple(dict.fromkeys(topic for topic, _ in self._options.assigned))
        try:
            return self.cluster.topics(names)
        except WireError as error:
            if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise OptionsError(f"{error.what} does not exist") from error
            raise

    def partitions(self, topics: Mapping[str, Topic]) -> list[Partition]:
        existing = [(name, partition) for name, topic in topics.items() for partition in sorted(topic.leaders)]
        if not self._options.assigned:
            return existing
        for topic, partition in set(self._options.assigned) - set(existing):
            raise OptionsError(f"assign: {topic} has no partition {partition}")
        return list(self._options.assigned)

    def earliest(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        return list_offsets(self.cluster, dict.fromkeys(partitions, EARLIEST), READ_UNCOMMITTED)

    def latest(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """The end of what a reader of this isolation may see."""
        return list_offsets(self.cluster, dict.fromkeys(partitions, LATEST), self._options.isolation)

    def offsets_at(
        self, boundary: Boundary, partitions: Iterable[Partition], *, starting: bool
    ) -> dict[Partition, int]:
        """The offset of each partition at the start or the end of what is read."""
        wanted = list(partitions)
        for topic, partition in {*boundary.offsets, *boundary.timestamps_ms} - set(wanted):
            raise OptionsError(f"{topic}-{partition} has an offset or a time, but is not read")
        times = {at: boundary.timestamps_ms.get(at, boundary.timestamp_ms) for at in wanted}
        timed = {at: time_ms for at, time_ms in times.items() if time_ms is not None}
        found = {at: boundary.offsets.get(at, boundary.default) for at in wanted if at not in timed}
        if timed:
            found |= self._at_times(timed, starting)
        return self._resolved(found)

    def _at_times(self, timed: Mapping[Partition, int], starting: bool) -> dict[Partition, int]:
        found = list_offsets(self.cluster, timed, self._options.isolation)
        for (topic, partition), offset in found.items():
            if offset < 0 and starting and not self._options.no_match_is_latest:
                raise OptionsError(
                    f"{topic}-{partition} has no record at or after {timed[topic, partition]};"
                    " startingOffsetsByTimestampStrategy=latest would begin at its end"
                )
        return {at: LATEST if offset < 0 else offset for at, offset in found.items()}

    def _resolved(self, offsets: Mapping[Partition, int]) -> dict[Partition, int]:
        """With the words for beginning and end replaced by where these are."""
        early = [at for at, offset in offsets.items() if offset == EARLIEST]
        late = [at for at, offset in offsets.items() if offset == LATEST]
        found = dict(offsets)
        if early:
            found |= self.earliest(early)
        if late:
            found |= self.latest(late)
        return found
