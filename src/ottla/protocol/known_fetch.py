"""The Fetch of a consumer that comes again and again, and its answer: known bytes around a few numbers.

A consumer without a fetch session names all its partitions in every request, and only the offsets differ. So a request
that was decoded once is remembered as the bytes around its offsets: one call takes the next one apart, and one makes
the answer. What is not exactly of this kind is left to the general codec. On the wire there is no difference.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from struct import Struct
from typing import Any, TypeAlias, TypeVar, cast

from ottla.ports import Bytes, Sendable
from ottla.protocol.codec import encode
from ottla.protocol.messages.fetch import (
    BY_TOPIC_ID_FROM,
    READ_COMMITTED,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from ottla.protocol.primitives import uvarint
from ottla.protocol.schema import Message
from ottla.types import TopicId

M = TypeVar("M", bound=Message)

LOG_START_OFFSET_FROM = 5
SESSIONS_FROM = 7
PREFERRED_REPLICA_FROM = 11
REPLICA_STATE_FROM = 15
NO_EPOCH = -1
NO_SESSION_EPOCH = -1
NOTHING: list[tuple[int, Sendable]] = []

PARTITIONS_MAX = 256
TOPICS_MAX = 126
"""Of a request that may be known: of so many topics, one byte says how many they are."""
BODY_BYTES_MIN = 48
"""Shorter ones name no partition."""
JOINED_BYTES_MAX = 16 * 1024
"""Records that are joined with the rest of an answer. Where there are more, they are not copied for it."""

Place: TypeAlias = "tuple[str | TopicId, int, int, int, int]"
"""A partition of a request: topic, index, the leader epoch that the reader knows, most bytes; and where its three
numbers stand among the values of the answer."""

_NUMBERS = Struct(">qqq")
"""High watermark, last stable offset and log start offset: what differs between answers without records."""
_SAMPLE = (-0x0123456789ABCDEF, -0x1032547698BADCFE, -0x0F1E2D3C4B5A6978)
_OFFSET = Struct(">q")
_SAMPLE_OFFSET = -0x7E6F5A4B3C2D1E0F
_pack_size = Struct(">i").pack


class KnownFetch:
    """What requests with the same bytes around their offsets have in common."""

    __slots__ = (
        "_gaps", "_is_flexible", "_pack", "_request", "_sizes_at", "_topics", "_unpack", "is_by_id", "max_bytes",
        "max_wait_ms", "places", "reads_committed", "values", "version",
    )  # fmt: skip

    def __init__(self, request: FetchRequest, version: int, layout: Struct, body: Bytes) -> None:
        self._request = request
        self.version = version
        self.is_by_id = version >= BY_TOPIC_ID_FROM
        self.max_bytes = request.max_bytes
        self.max_wait_ms = request.max_wait_ms if request.min_bytes > 0 else 0
        self.reads_committed = request.isolation_level == READ_COMMITTED
        self._unpack = layout.unpack_from
        self._gaps = layout.unpack(body)[::2]
        self._is_flexible = version >= FetchRequest.flexible_from
        self._topics: dict[tuple[str, TopicId], list[int]] = {}
        """In the order of the answer: it names a topic once, the request may do so twice."""
        for topic in request.topics:
            indexes = self._topics.setdefault((topic.topic, topic.topic_id), [])
            indexes += [asked.partition for asked in topic.partitions]
        self.places = self._places()
        gaps = encode(self._message([b"", *_SAMPLE] * len(self.places), {}), version).split(_NUMBERS.pack(*_SAMPLE))
        self.values: list[Any] = [value for gap in gaps for value in (gap, 0, 0, 0)][:-3]
        """What the answer is packed from, to be copied and filled in: three numbers of each partition between gaps."""
        self._pack = Struct(">" + "qqq".join(f"{len(gap)}s" for gap in gaps)).pack
        skipped = (1 if self._is_flexible else 4) + (4 if version >= PREFERRED_REPLICA_FROM else 0)
        ends = accumulate(len(gap) + _NUMBERS.size for gap in gaps[:-1])
        self._sizes_at = [end + skipped for end in ends]
        """Where in an answer without records their sizes stand, behind aborted transactions and preferred replica."""

    def _places(self) -> list[Place]:
        answered = [(*topic, index) for topic, indexes in self._topics.items() for index in indexes]
        values_at = {partition: 4 * number + 1 for number, partition in enumerate(answered)}
        return [
            (
                topic.topic_id if self.is_by_id else topic.topic,
                asked.partition,
                max(asked.current_leader_epoch, asked.last_fetched_epoch),
                asked.partition_max_bytes,
                values_at[topic.topic, topic.topic_id, asked.partition],
            )
            for topic in self._request.topics
            for asked in topic.partitions
        ]

    @property
    def memory_bytes(self) -> int:
        """About what it takes, as measured."""
        return 2_000 + 600 * len(self.places)

    def offsets(self, frame: Bytes, at: int) -> tuple[int, ...] | None:
        """Those in the body at `at`, which has as many bytes as this one; None if it is another request."""
        fields: tuple[Any, ...] = self._unpack(frame, at)
        return fields[1::2] if fields[::2] == self._gaps else None

    def request(self, offsets: Iterable[int]) -> FetchRequest:
        """With these offsets, and without time to wait."""
        return _with_offsets(self._request, offsets)

    def answer(
        self, values: list[Any], read: list[tuple[int, Sendable]] = NOTHING, size_bytes: int = 0
    ) -> bytes | FetchResponse:
        """With the records that were `read`, by the place of their partition's numbers; all have `size_bytes`."""
        if size_bytes > JOINED_BYTES_MAX:
            return self._message(values, dict(read))
        without = self._pack(*values)
        if not read:
            return without
        if len(read) > 1:
            read.sort()
        is_flexible, done = self._is_flexible, 0
        pieces: list[Bytes] = []
        for at, records in cast("list[tuple[int, Bytes]]", read):  # so few are no stretch of a file
            size_at = self._sizes_at[at // 4]
            if is_flexible:
                pieces += without[done:size_at], uvarint(len(records) + 1), records
                done = size_at + 1
            else:
                pieces += without[done:size_at], _pack_size(len(records)), records
                done = size_at + 4
        pieces.append(without[done:])
        return b"".join(pieces)

    def _message(self, values: list[Any], records: dict[int, Sendable]) -> FetchResponse:
        at, responses = 1, []
        for (topic, topic_id), indexes in self._topics.items():
            partitions = []
            for index in indexes:
                high_watermark, stable, start = values[at : at + 3]
                partitions.append(
                    PartitionData(
                        partition_index=index,
                        high_watermark=high_watermark,
                        last_stable_offset=stable,
                        log_start_offset=start,
                        aborted_transactions=() if self.reads_committed else None,
                        records=records.get(at, b""),
                    )
                )
                at += 4
            responses.append(FetchableTopicResponse(topic=topic, topic_id=topic_id, partitions=partitions))
        return FetchResponse(responses=responses)


def is_plain(request: FetchRequest) -> bool:
    """Not of a follower, in a session, from a rack, or for more than a first record; and not too large."""
    if (
        request.session_epoch != NO_SESSION_EPOCH
        or request.session_id
        or request.replica_id >= 0
        or request.replica_state.replica_id >= 0
        or request.min_bytes > 1
        or request.forgotten_topics_data
        or request.rack_id
        or len(request.topics) > TOPICS_MAX
    ):
        return False
    named = [(topic.topic, topic.topic_id, asked.partition) for topic in request.topics for asked in topic.partitions]
    return (
        0 < len(named) <= PARTITIONS_MAX
        and len(set(named)) == len(named)
        and all(_has_one_epoch(asked) for topic in request.topics for asked in topic.partitions)
    )


def know(request: FetchRequest, version: int, body: Bytes) -> KnownFetch | None:
    """A plain request, to know it again. None if its bytes are not what they are thought to be."""
    if encode(request, version) != bytes(body):
        return None
    layout = _layout(request, version, len(body))
    offsets = [asked.fetch_offset for topic in request.topics for asked in topic.partitions]
    if list(layout.unpack(body)[1::2]) != offsets:
        return None  # a topic id holds the bytes of a sample
    return KnownFetch(request, version, layout, body)


def _has_one_epoch(asked: FetchPartition) -> bool:
    current, last = asked.current_leader_epoch, asked.last_fetched_epoch
    return current >= NO_EPOCH and last in (NO_EPOCH, current)


def beginning(frame: Bytes, at: int, version: int) -> bytes:
    """What a body begins with, up to its first partition; where it names too many topics, something or other."""
    if version >= BY_TOPIC_ID_FROM:
        return bytes(frame[at : at + (43 if version >= REPLICA_STATE_FROM else 47)])
    if version >= FetchRequest.flexible_from:
        return bytes(frame[at : at + 31 + frame[at + 26]])
    name_at = at + (31 if version >= SESSIONS_FROM else 23)
    return bytes(frame[at : name_at + frame[name_at - 1] + 8])


def _layout(request: FetchRequest, version: int, body_bytes: int) -> Struct:
    """Gaps and offsets in turns."""
    count = sum(len(topic.partitions) for topic in request.topics)
    samples = [_SAMPLE_OFFSET + number for number in range(count)]
    encoded, at, gaps = encode(_with_offsets(request, samples), version), 0, []
    for sample in samples:
        found = encoded.index(_OFFSET.pack(sample), at)
        gaps.append(found - at)
        at = found + _OFFSET.size
    return Struct(">" + "".join(f"{gap}sq" for gap in gaps) + f"{body_bytes - at}s")


def _with_offsets(request: FetchRequest, offsets: Iterable[int]) -> FetchRequest:
    """The request with other offsets, and without time to wait."""
    offset = iter(offsets)
    topics = [
        _changed(topic, partitions=[_changed(asked, fetch_offset=next(offset)) for asked in topic.partitions])
        for topic in request.topics
    ]
    return _changed(request, max_wait_ms=0, topics=topics)


def _changed(message: M, **changes: Any) -> M:
    return type(message)(**{name: getattr(message, name) for name in message.field_names()} | changes)
