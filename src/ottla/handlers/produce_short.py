"""Produce, the short way: a request with one batch that begins as one did before.

A producer sends the same bytes again and again: the same acks, time-out and topic; only the partition and the batch are
new. So what stands before them is not decoded but looked up as a whole, and the answer is a few numbers between bytes
that are known. No message is built on the way, neither in nor out, which halves what such a request costs in Python.
Nothing is kept for each partition either: of ten thousand, none would be in the processor's cache when it is needed.

A beginning is learnt from a request that came the long way, through the decoder, and found its partition. Whatever is
not exactly of this kind (several batches, a transaction, a quota, acks=0, bytes at the end) goes the long way.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError  # noqa: N812  # it is a class
from typing import TYPE_CHECKING, Any

from ottla.errors import BrokerError, ProtocolError
from ottla.handlers.produce import note_refusal, refused
from ottla.handlers.registry import NOT_TAKEN, short_way
from ottla.protocol.codec import codec_for
from ottla.protocol.messages.produce import (
    ACKS_ALL,
    ACKS_LEADER,
    BY_TOPIC_ID_FROM,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from ottla.protocol.primitives import read_rest_of_uvarint
from ottla.storage.log import Origin

if TYPE_CHECKING:
    from ottla.replication.partition import Partition
    from ottla.services import RequestContext

LOG_START_OFFSET_FROM = 5
KNOWN_MAX = 16_384
"""Beginnings that are remembered; all are forgotten when there are more, and learnt again."""

_NUMBERS = Struct(">ihqqq")
"""Partition, error code, base offset, time of the append and log start offset: what differs between answers."""
_SAMPLE = (0x1A2B3C4D, 0, 0x0123456789ABCDEF, 0x1032547698BADCFE, 0x0F1E2D3C4B5A6978)
_SAMPLE_BYTES = _NUMBERS.pack(*_SAMPLE)
_pack_numbers = _NUMBERS.pack
_INDEX_BYTES = 4
_unpack_index = Struct(">i").unpack_from
_unpack_size = Struct(">i").unpack_from
_unpack_name_size = Struct(">h").unpack_from
_NO_TAGS = b"\0\0\0"
"""Of the partition, the topic and the request."""


class Beginning:
    """What requests that begin with the same bytes have in common."""

    __slots__ = ("acks", "after", "before", "timeout_ms", "topic", "topic_id")

    def __init__(self, request: ProduceRequest, topic: TopicProduceData, before: bytes, after: bytes) -> None:
        self.acks = request.acks
        self.timeout_ms = request.timeout_ms
        self.topic = topic.name
        self.topic_id = topic.topic_id
        self.before = before
        self.after = after
        """The answer, but for its numbers."""

    def refused(self, answer: bytes, error: BrokerError) -> ProduceResponse:
        """What to say instead of `answer`."""
        return self.answer(refused(_unpack_index(answer, len(self.before))[0], error))

    def answer(self, of_partition: PartitionProduceResponse) -> ProduceResponse:
        topic = TopicProduceResponse(name=self.topic, topic_id=self.topic_id, partition_responses=[of_partition])
        return ProduceResponse(responses=[topic])


class ShortProduce:
    """For one version."""

    def __init__(self, version: int) -> None:
        self._version = version
        self._is_flexible = version >= ProduceRequest.flexible_from
        self._is_by_id = version >= BY_TOPIC_ID_FROM
        self._known: dict[bytes, Beginning] = {}

    def serve(self, frame: memoryview, at: int, ctx: RequestContext) -> Any:
        """The answer to the request whose body begins at `at`, or NOT_TAKEN."""
        services, now_ms = ctx.services, ctx.now_ms
        try:
            end = self._beginning_end(frame, at)
            known = self._known.get(bytes(frame[at:end]))
            records = None if known is None else self._batch(frame, end + _INDEX_BYTES)
            if known is None or records is None:
                return NOT_TAKEN
            (index,) = _unpack_index(frame, end)
            if self._is_by_id:
                partition = services.partitions.get_by_id(known.topic_id, index)
            else:
                partition = services.partitions.get(known.topic, index)
        except (IndexError, StructError, ProtocolError, BrokerError):
            return NOT_TAKEN  # the long way says what is wrong
        acks_all = known.acks == ACKS_ALL
        if services.quotas.active or services.room.is_full or (acks_all and not partition.is_safe):
            return NOT_TAKEN
        committer = services.committer
        try:
            offset = committer.append(partition, records, now_ms=now_ms, origin=Origin.CLIENT)
        except BrokerError as error:
            note_refusal(known.topic, known.topic_id, index, error, ctx)
            return known.answer(refused(index, error))
        log = partition.log
        appended_ms = now_ms if log.stamps_append_time else -1
        answer = known.before + _pack_numbers(index, 0, offset, appended_ms, log.start_offset) + known.after
        if acks_all and not partition.is_alone:
            return services.acks.when_one_committed(answer, partition, log.end_offset, known.refused, known.timeout_ms)
        return committer.after_commit(answer, known.refused)

    def learn(self, request: ProduceRequest, frame: memoryview, at: int, ctx: RequestContext) -> None:
        """`request` came the long way: the next one that begins as it does need not."""
        topics = request.topic_data
        if (
            len(topics) != 1
            or len(topics[0].partition_data) != 1
            or request.acks not in (ACKS_ALL, ACKS_LEADER)
            or request.transactional_id is not None
        ):
            return
        template = self._template(request, topics[0])
        if len(template) != 2:
            return
        beginning = Beginning(request, topics[0], *template)
        try:
            end = self._beginning_end(frame, at)
            data = topics[0].partition_data[0]
            self._partition(beginning, data.index, ctx)
            is_as_thought = (
                _unpack_index(frame, end)[0] == data.index and self._batch(frame, end + _INDEX_BYTES) == data.records
            )
        except (IndexError, StructError, ProtocolError, BrokerError):
            return
        if is_as_thought:
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            self._known[bytes(frame[at:end])] = beginning

    def _partition(self, known: Beginning, index: int, ctx: RequestContext) -> Partition:
        partitions = ctx.services.partitions
        if self._is_by_id:
            return partitions.get_by_id(known.topic_id, index)
        return partitions.get(known.topic, index)

    def _batch(self, frame: memoryview, at: int) -> memoryview | None:
        """The batch whose size stands at `at`, if nothing comes after it."""
        if not self._is_flexible:
            records = frame[at + 4 :]
            return records if _unpack_size(frame, at)[0] == len(records) else None
        size = frame[at]
        at += 1
        if size > 127:
            size, at = read_rest_of_uvarint(frame, at, size)
        end = at + size - 1
        return frame[at:end] if frame[end:] == _NO_TAGS else None

    def _beginning_end(self, frame: memoryview, at: int) -> int:
        """Where the index of the partition stands, in a request with one batch. Its size follows.

        In others it is some place or other: `learn` compares.
        """
        if self._is_by_id:
            return at + 25  # no transactional id, acks, time-out, one topic, its id, one partition
        if self._is_flexible:
            return at + 9 + frame[at + 8]  # the same, with one byte and a name for the id
        name_size: int = _unpack_name_size(frame, at + 12)[0]
        return at + 18 + name_size  # the same, in numbers of fixed size

    def _template(self, request: ProduceRequest, topic: TopicProduceData) -> list[bytes]:
        """The bytes of an answer before its numbers, and after them."""
        index, _, base_offset, appended_ms, start_offset = _SAMPLE
        sample = PartitionProduceResponse(
            index=index,
            base_offset=base_offset,
            log_append_time_ms=appended_ms,
            log_start_offset=start_offset,
        )
        out: list[Any] = []
        codec_for(ProduceResponse, self._version).encode(Beginning(request, topic, b"", b"").answer(sample), out)
        return b"".join(out).split(_SAMPLE_BYTES)


@short_way(ProduceRequest)
def short_produce(version: int) -> ShortProduce | None:
    return ShortProduce(version) if version >= LOG_START_OFFSET_FROM else None
