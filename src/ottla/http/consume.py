"""Reading: one partition from an offset on, by Fetch requests to its leader. Only what is committed is shown."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from ottla.errors import BrokerError, ErrorCode
from ottla.http.cluster import Cluster, Deadline
from ottla.http.decoding import Aborted, Decoder
from ottla.http.errors import CONFLICT, HttpError, bad_request
from ottla.http.messages import Encoding, Received
from ottla.http.ways import HELD
from ottla.protocol.messages.fetch import (
    READ_COMMITTED,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.protocol.record import Record
from ottla.protocol.records import iter_batches, read_records

FETCH_VERSION = 12
"""The last that names topics and not their ids."""
CONSUMER = -1
LATEST = -1
EARLIEST = -2
NAMED_OFFSETS = {"earliest": EARLIEST, "latest": LATEST}
BYTES_MIN = 64 * 1024
RECORD_BYTES_GUESS = 1024
GUESS_MARGIN = 1.2
GUESSES_MAX = 10_000
INT64_MAX = 2**63 - 1
TURN_RECORDS = 500
"""Then others have their turn: to make JSON of a message takes some microseconds."""


class Slice(msgspec.Struct):
    """What was read of one partition."""

    topic: str
    partition: int
    records: list[Received]
    next_offset: int
    high_watermark: int
    log_start_offset: int


class Fetched:
    """One answer of a leader, with bytes of its own."""

    __slots__ = ("_aborted", "high_watermark", "log_start_offset", "offset", "records")

    def __init__(self, data: PartitionData, offset: int) -> None:
        self.offset = offset
        self.records = _joined(data.records)
        self.high_watermark = data.high_watermark
        self.log_start_offset = data.log_start_offset
        self._aborted = [(each.first_offset, each.producer_id) for each in data.aborted_transactions or ()]

    @property
    def aborted(self) -> Aborted:
        """To go through the batches with once."""
        return Aborted(self._aborted)

    def read(self) -> Iterator[tuple[int, Record | None]]:
        """Each record that counts, with the offset after it; None at the end of each batch."""
        aborted = self.aborted
        for batch in iter_batches(self.records):
            if not ((batch.is_control or batch.is_transactional) and aborted.hides(batch)):
                for record in read_records(batch.data):
                    if record.offset >= self.offset:
                        yield record.offset + 1, record
            yield batch.last_offset + 1, None


class Consuming:
    def __init__(self, cluster: Cluster, *, records_max: int, bytes_max: int, wait_ms_max: int) -> None:
        self._cluster = cluster
        self._bytes_max = bytes_max
        self.records_max = records_max
        self.wait_ms_max = wait_ms_max
        self.messages = 0
        """Read so far."""
        self._message_bytes: dict[tuple[str, int], float] = {}
        """Bytes of log that a message takes, by partition, as it was last."""

    async def consume(
        self, topic: str, partition: int, offset: str, *, limit: int, wait_ms: int, encoding: Encoding
    ) -> Slice:
        at = await self.resolve(topic, partition, offset)
        try:
            return await self.read(topic, partition, at, limit=limit, wait_ms=wait_ms, encoding=encoding)
        except BrokerError as error:
            if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            raise await self._out_of_range(topic, partition, at) from None

    async def read(self, topic: str, partition: int, at: int, *, limit: int, wait_ms: int, encoding: Encoding) -> Slice:
        """Up to `limit` messages from `at` on; as soon as there is one, or when the time is up."""
        limit = min(limit, self.records_max)
        deadline = Deadline(min(wait_ms, self.wait_ms_max))
        decoder = Decoder(topic, partition, encoding, limit)
        found, turn = decoder.found, TURN_RECORDS
        while True:
            fetched = await self.fetch(topic, partition, at, limit - len(found), 0 if found else deadline.left_ms)
            before = at
            for after in decoder.decode(fetched.records, at, fetched.aborted):
                at = after
                if len(found) >= turn:
                    turn = len(found) + TURN_RECORDS
                    await asyncio.sleep(0)
            if len(found) >= limit or (at == before and (found or not deadline.left_ms)):
                break
        if found:
            self._learn(topic, partition, decoder.bytes_read / len(found))
        self.messages += len(found)
        return Slice(topic, partition, found, at, fetched.high_watermark, fetched.log_start_offset)

    def _learn(self, topic: str, partition: int, message_bytes: float) -> None:
        """The next reader is not given ten times what it takes."""
        if len(self._message_bytes) > GUESSES_MAX:
            self._message_bytes.clear()
        self._message_bytes[topic, partition] = message_bytes

    async def fetch(self, topic: str, partition: int, offset: int, limit: int, wait_ms: int) -> Fetched:
        guess = self._message_bytes.get((topic, partition), RECORD_BYTES_GUESS)
        size = min(self._bytes_max, max(BYTES_MIN, int(limit * guess * GUESS_MARGIN)))
        asked = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=size)
        request = FetchRequest(
            replica_id=CONSUMER,
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=size,
            isolation_level=READ_COMMITTED,
            topics=(FetchTopic(topic=topic, partitions=(asked,)),),
        )
        return await self._cluster.at_leader(
            topic, partition, request, _take(offset), version=FETCH_VERSION, wait_ms=wait_ms, channel=HELD
        )

    async def resolve(self, topic: str, partition: int, offset: str) -> int:
        """An offset out of a number, `earliest`, `latest` or a time."""
        if offset.isascii() and offset.isdigit():
            number = int(offset)
            if number > INT64_MAX:
                raise bad_request("An offset has 64 bits.")
            return number
        named = NAMED_OFFSETS.get(offset)
        found = await self.offset_at(topic, partition, _time_ms(offset) if named is None else named)
        return found if found >= 0 else await self.offset_at(topic, partition, LATEST)

    async def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int:
        """-1 if all messages are older."""
        asked = ListOffsetsPartition(partition_index=partition, timestamp=timestamp_ms)
        request = ListOffsetsRequest(
            replica_id=CONSUMER,
            isolation_level=READ_COMMITTED,
            topics=(ListOffsetsTopic(name=topic, partitions=(asked,)),),
            timeout_ms=self._cluster.timeout_ms,
        )
        return await self._cluster.at_leader(topic, partition, request, _offset)

    async def _out_of_range(self, topic: str, partition: int, offset: int) -> HttpError:
        earliest = await self.offset_at(topic, partition, EARLIEST)
        latest = await self.offset_at(topic, partition, LATEST)
        return HttpError(
            CONFLICT,
            "offset_out_of_range",
            f"Offset {offset} is not in {topic}-{partition}, which holds {earliest} to {latest}.",
            kafka_error=ErrorCode.OFFSET_OUT_OF_RANGE.name,
            more={"earliest": earliest, "latest": latest},
        )


def _take(offset: int) -> Callable[[FetchResponse], Fetched]:
    def take(answer: FetchResponse) -> Fetched:
        if answer.error_code:
            raise BrokerError(ErrorCode(answer.error_code))
        data = answer.responses[0].partitions[0]
        if data.error_code:
            raise BrokerError(ErrorCode(data.error_code))
        return Fetched(data, offset)

    return take


def _joined(records: Any) -> bytes:
    if records is None:
        return b""
    return b"".join(records) if isinstance(records, list | tuple) else bytes(records)


def _offset(answer: ListOffsetsResponse) -> int:
    found = answer.topics[0].partitions[0]
    if found.error_code:
        raise BrokerError(ErrorCode(found.error_code))
    return found.offset


def _time_ms(text: str) -> int:
    """`2026-11-15T14:00:00Z`, or `@` and milliseconds since 1970."""
    try:
        if text.startswith("@"):
            time_ms = int(text[1:])
        else:
            time = datetime.fromisoformat(text)
            time_ms = int((time if time.tzinfo is not None else time.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        time_ms = -1
    if not 0 <= time_ms <= INT64_MAX:
        raise bad_request(
            f"offset is {text[:40]!r}; it must be a number, earliest, latest, a time such as 2026-11-15T14:00:00Z, or "
            "@ and milliseconds since 1970."
        )
    return time_ms
