"""Reading one range of offsets in a task: fetches, with the next one under way while the last is decoded.

What is no longer there is never stepped over silently. A topic is asked for by its id, so that one that was deleted and
made again is not taken for the old one; `DataLossError` says what is missing unless the query said that it may be.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from ottla.errors import ErrorCode
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from pyspark_ottla.decoding import Decoder, Range, last_offset_in
from pyspark_ottla.offsets import EARLIEST, READ_UNCOMMITTED, list_offsets
from pyspark_ottla.wire import PASSING, Broker, Cluster, WireError

__all__ = ["DataLossError", "FetchSettings", "read_range"]

IDS_FROM: Final = 13
GONE: Final = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INCONSISTENT_TOPIC_ID}
)
GONE_SIGHTINGS: Final = 10
"""So often, with pauses, must a topic be missing to be believed: a broker may not have heard of it yet."""
RETRY_PAUSE_S: Final = 0.05

log = logging.getLogger(__name__)


class DataLossError(Exception):
    """Records that the query should have read are not there any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSettings:
    isolation: int
    partition_bytes_max: int
    wait_ms_max: int
    timeout_s: float
    fails_on_data_loss: bool
    checks_crcs: bool


def read_range(cluster: Cluster, wanted: Range, schema: pa.Schema, settings: FetchSettings) -> Iterator[pa.RecordBatch]:
    """All records of `wanted`, in Arrow batches."""
    reading = _Reading(cluster, wanted, settings)
    decoder = Decoder(wanted, schema, check_crcs=settings.checks_crcs)
    try:
        while (fetched := reading.next()) is not None:
            aborted = [(entry.producer_id, entry.first_offset) for entry in fetched.aborted_transactions or ()]
            yield from decoder.decode(_view(fetched), aborted, from_offset=reading.lost_upto)
    finally:
        reading.close()


def _view(fetched: PartitionData) -> memoryview:
    records: Any = fetched.records
    return memoryview(b"") if records is None else memoryview(records)


class _Reading:
    """One range that is being read. At most one fetch is under way, from `_position`."""

    def __init__(self, cluster: Cluster, wanted: Range, settings: FetchSettings) -> None:
        self._cluster, self._wanted, self._settings = cluster, wanted, settings
        self._position = wanted.start
        self.lost_upto = wanted.start
        """A batch may hold records that are not there any more, before those that are."""
        self._asked: Broker | None = None
        self._gone_sightings = 0
        self._deadline = time.monotonic() + settings.timeout_s

    def next(self) -> PartitionData | None:
        """The next answer that holds a whole batch; None at the end of the range."""
        while self._position < self._wanted.end:
            try:
                fetched = self._receive()
            except WireError as error:
                self._recover(error)
                continue
            last = last_offset_in(_view(fetched))
            if last is None:
                self._check_time("no records came")
                continue
            self._position = max(self._position, last + 1)
            self._gone_sightings = 0
            self._deadline = time.monotonic() + self._settings.timeout_s
            if self._position < self._wanted.end:
                self._try_send()
            return fetched
        return None

    def close(self) -> None:
        """An answer that nobody waits for must not be taken for that to another request."""
        if self._asked is not None:
            self._asked = None
            self._cluster.close()

    def _try_send(self) -> None:
        try:
            self._send()
        except WireError as error:
            log.info("%s", error)
            self._asked = None  # it is sent, and its failure dealt with, when it is needed

    def _send(self) -> None:
        wanted = self._wanted
        broker = self._cluster.leader(wanted.topic, wanted.partition)
        current = self._cluster.topics([wanted.topic])[wanted.topic]
        if current.topic_id != wanted.topic_id:
            raise WireError(ErrorCode.UNKNOWN_TOPIC_ID, wanted.topic)
        partition = FetchPartition(
            partition=wanted.partition,
            fetch_offset=self._position,
            partition_max_bytes=self._settings.partition_bytes_max,
        )
        broker.send(
            FetchRequest(
                max_wait_ms=self._settings.wait_ms_max,
                min_bytes=1,
                max_bytes=self._settings.partition_bytes_max,
                isolation_level=self._settings.isolation,
                topics=[FetchTopic(topic=wanted.topic, topic_id=wanted.topic_id, partitions=[partition])],
            )
        )
        self._asked = broker

    def _receive(self) -> PartitionData:
        if self._asked is None:
            self._send()
        broker, self._asked = self._asked, None
        if broker is None:
            raise WireError(ErrorCode.NETWORK_EXCEPTION, "nothing was sent")
        answer: Any = broker.receive()
        name = f"{self._wanted.topic}-{self._wanted.partition} at offset {self._position}"
        if answer.error_code:
            raise WireError(ErrorCode(answer.error_code), name)
        fetched: PartitionData = answer.responses[0].partitions[0]
        if fetched.error_code:
            raise WireError(ErrorCode(fetched.error_code), name)
        return fetched

    # When it does not work

    def _recover(self, error: WireError) -> None:
        if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._step_over_what_is_gone()
        elif error.code in GONE and self._gone_sightings == GONE_SIGHTINGS:
            self._lose(self._wanted.end, f"{self._wanted.topic} was deleted, or deleted and made again")
        elif error.code in PASSING or error.code in GONE:
            self._gone_sightings += error.code in GONE
            self._check_time(str(error))
            self._cluster.forget()
            time.sleep(RETRY_PAUSE_S)
        else:
            raise error

    def _step_over_what_is_gone(self) -> None:
        at = (self._wanted.topic, self._wanted.partition)
        earliest = list_offsets(self._cluster, {at: EARLIEST}, READ_UNCOMMITTED)[at]
        if earliest > self._position:
            self._lose(min(earliest, self._wanted.end), "they are older than what the topic keeps")
        else:
            self._lose(self._wanted.end, "the partition ends before them")

    def _lose(self, next_position: int, reason: str) -> None:
        lost = (
            f"offsets {self._position} to {next_position - 1} of {self._wanted.topic}-{self._wanted.partition}"
            f" are not there any more: {reason}"
        )
        if self._settings.fails_on_data_loss:
            raise DataLossError(f"{lost}. Set failOnDataLoss to false to go on without them.")
        log.warning("%s; going on without them, as failOnDataLoss is false", lost)
        self._position = self.lost_upto = next_position

    def _check_time(self, reason: str) -> None:
        if time.monotonic() > self._deadline:
            raise TimeoutError(
                f"{self._wanted.topic}-{self._wanted.partition} at offset {self._position}: {reason}"
                f" for {self._settings.timeout_s:g} s (kafkaConsumer.pollTimeoutMs)"
            )
