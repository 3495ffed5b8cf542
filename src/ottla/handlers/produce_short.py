"""Produce, the short way: a request for one topic that begins as one did before.

A producer sends the same bytes again and again: the same acks, time-out and topic; only the partition and the batch are
new. So what stands before them is not decoded but looked up as a whole, and the answer is a few numbers between bytes
that are known. No message is built on the way, neither in nor out, which halves what such a request costs in Python.
Nothing is kept for each partition either: of ten thousand, none would be in the processor's cache when it is needed.

A beginning is learnt from a request that came the long way, through the decoder, and found its partition. Requests with
one batch are served here, those with several by `produce_several`. Whatever is not exactly of this kind (several
topics, a transaction, a quota, acks=0, bytes at the end) goes the long way.

A connection remembers the last beginning that was found for it (`RequestContext.again`), and serves the next request
that begins so without coming here.
"""

from __future__ import annotations

from functools import cache
from struct import Struct
from struct import error as StructError  # noqa: N812  # it is a class
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ottla.errors import BrokerError, ProtocolError
from ottla.handlers.produce import note_refusal, refused
from ottla.handlers.produce_known import NUMBERS, KnownStart
from ottla.handlers.produce_several import Several
from ottla.handlers.registry import NOT_TAKEN, short_way
from ottla.protocol.framing import CLIENT_AT, CORRELATION_ID, RESPONSE_HEADER
from ottla.protocol.messages.produce import (
    ACKS_ALL,
    ACKS_LEADER,
    BY_TOPIC_ID_FROM,
    ProduceRequest,
    ProduceResponse,
)
from ottla.protocol.primitives import read_rest_of_uvarint
from ottla.services import WITH_COMMIT, Again
from ottla.storage.log import Origin

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.ports import Bytes
    from ottla.services import Receiver, RequestContext

T = TypeVar("T")

LOG_START_OFFSET_FROM = 5
KNOWN_MAX = 16_384
"""Beginnings that are remembered; all are forgotten when there are more, and learnt again."""

_INDEX_BYTES: Final = 4
_unpack_index: Final[Callable[[Bytes, int], tuple[int]]] = Struct(">i").unpack_from
_INDEX_AND_SIZE = Struct(">ii")
_INDEX_AND_SIZE_BYTES: Final = _INDEX_AND_SIZE.size
_unpack_index_and_size: Final[Callable[[Bytes, int], tuple[int, int]]] = _INDEX_AND_SIZE.unpack_from
_unpack_name_size = Struct(">h").unpack_from
_CLIENT: Final = Origin.CLIENT
_NO_TAGS = b"\0\0\0"
"""Of the partition, the topic and the request."""


class Beginning(KnownStart):
    """Serves requests with one batch."""

    __slots__ = ("_on_failure", "_pack", "_size_bytes")

    def __init__(self, request: ProduceRequest, version: int) -> None:
        super().__init__(request, version)
        self._size_bytes = CORRELATION_ID.size + len(self._before) + NUMBERS.size + len(self._after)
        self._pack = _layout(len(self._before), len(self._after)).pack
        self._on_failure = self._refused_reply

    def serve(
        self, frame: Bytes, at: int, ctx: RequestContext, receiver: Receiver | None = None, correlation_id: int = 0
    ) -> Any:
        """The answer, given where the index of the partition stands."""
        services, now_ms = ctx.services, ctx.now_ms
        try:
            if self._is_flexible:
                (index,) = _unpack_index(frame, at)
                records = batch_before_tags(frame, at + _INDEX_BYTES)
            else:
                index, size = _unpack_index_and_size(frame, at)
                records = frame[at + _INDEX_AND_SIZE_BYTES :]
                if len(records) != size:
                    return NOT_TAKEN
            if records is None:
                return NOT_TAKEN
            partition = self._led.get(index)
            if partition is None:
                partition = self._find(services.partitions, index)
        except (IndexError, StructError, ProtocolError, BrokerError):
            return NOT_TAKEN  # the long way says what is wrong
        acks_all = self._acks_all
        if services.quotas.active or services.room.is_full or (acks_all and not partition.is_safe):
            return NOT_TAKEN
        committer = services.committer
        try:
            offset = committer.append(partition, records, now_ms, _CLIENT)
        except BrokerError as error:
            note_refusal(self._topic, self._topic_id, index, error, ctx)
            return self.answer([refused(index, error)])
        log = partition.log
        reply = self._pack(
            self._size_bytes,
            correlation_id,
            self._before,
            index,
            0,
            offset,
            now_ms if log.stamps_append_time else -1,
            log.start_offset,
            self._after,
        )
        if acks_all and not partition.is_alone:
            answer = reply[self._header_bytes :]
            return services.acks.when_one_committed(answer, partition, log.end_offset, self._refused, self._timeout_ms)
        if receiver is None:
            return committer.after_commit(reply[self._header_bytes :], self._refused)
        committer.replies.append((receiver, reply, self._on_failure))
        return WITH_COMMIT

    def _refused(self, answer: bytes, error: BrokerError) -> ProduceResponse:
        """What to say instead of `answer`."""
        index_at = len(self._before) - (1 if self._is_flexible else 0)
        return self.answer([refused(_unpack_index(answer, index_at)[0], error)])

    def _refused_reply(self, reply: bytes, error: BrokerError) -> bytes:
        """The same of a whole frame."""
        (index,) = _unpack_index(reply, RESPONSE_HEADER.size + len(self._before))
        return self._instead_of(reply, [refused(index, error)])


class ShortProduce:
    """For one version."""

    def __init__(self, version: int) -> None:
        self._version = version
        self._is_flexible = version >= ProduceRequest.flexible_from
        self._is_by_id = version >= BY_TOPIC_ID_FROM
        self._api = ProduceRequest.api_key << 16 | version
        self._count_bytes, self._one = (1, 2) if self._is_flexible else (4, 1)
        """Of the number of batches: its size, and its last byte where there is one."""
        self._known: dict[bytes, Beginning] = {}
        self._several: dict[bytes, Several] = {}
        """By what stands before the number of batches."""

    def serve(self, frame: Bytes, at: int, ctx: RequestContext) -> Any:
        """The answer to the request whose body begins at `at`, or NOT_TAKEN."""
        try:
            end = self._beginning_end(frame, at)
            last_of_count = frame[end - 1]
        except (IndexError, StructError):
            return NOT_TAKEN
        known: Beginning | Several | None = self._known.get(bytes(frame[at:end]))
        if known is None:
            if last_of_count == self._one:
                return NOT_TAKEN  # to be learnt: with one batch there is a shorter way than with several
            end -= self._count_bytes
            known = self._several.get(bytes(frame[at:end]))
            if known is None:
                return NOT_TAKEN
        ctx.again = Again(self._api, bytes(frame[CLIENT_AT:end]), end, known.serve)
        return known.serve(frame, end, ctx)

    def learn(self, request: ProduceRequest, frame: Bytes, at: int, ctx: RequestContext) -> None:
        """`request` came the long way: the next one that begins as it does need not."""
        topics = request.topic_data
        if len(topics) != 1 or request.acks not in (ACKS_ALL, ACKS_LEADER) or request.transactional_id is not None:
            return
        try:
            if self._is_by_id:
                ctx.services.partitions.get_by_id(topics[0].topic_id, topics[0].partition_data[0].index)
            else:
                ctx.services.partitions.get(topics[0].name, topics[0].partition_data[0].index)
            end = self._beginning_end(frame, at)
            if len(topics[0].partition_data) == 1:
                self._learn_one(request, frame, at, end)
            else:
                self._learn_several(request, frame, at, end - self._count_bytes)
        except (IndexError, StructError, ValueError, ProtocolError, BrokerError):
            return

    def _learn_one(self, request: ProduceRequest, frame: Bytes, at: int, end: int) -> None:
        data, start = request.topic_data[0].partition_data[0], bytes(frame[at:end])
        if start in self._known:
            return  # it is known, and was not taken for another reason
        if _unpack_index(frame, end)[0] == data.index and self._batch(frame, end + _INDEX_BYTES) == data.records:
            _remember(self._known, start, Beginning(request, self._version))

    def _learn_several(self, request: ProduceRequest, frame: Bytes, at: int, end: int) -> None:
        start = bytes(frame[at:end])
        if start in self._several:
            return
        several = Several(request, self._version)
        if several.batches(frame, end) == [(data.index, data.records) for data in request.topic_data[0].partition_data]:
            _remember(self._several, start, several)

    def _batch(self, frame: Bytes, at: int) -> Bytes | None:
        """The batch whose size stands at `at`, if nothing comes after it."""
        if self._is_flexible:
            return batch_before_tags(frame, at)
        records = frame[at + 4 :]
        return records if _unpack_index(frame, at)[0] == len(records) else None

    def _beginning_end(self, frame: Bytes, at: int) -> int:
        """Where the index of the partition stands, in a request with one batch. Its size follows.

        In others it is some place or other: `learn` compares.
        """
        if self._is_by_id:
            return at + 25  # no transactional id, acks, time-out, one topic, its id, one partition
        if self._is_flexible:
            return at + 9 + frame[at + 8]  # the same, with one byte and a name for the id
        name_size: int = _unpack_name_size(frame, at + 12)[0]
        return at + 18 + name_size  # the same, in numbers of fixed size


def batch_before_tags(frame: Bytes, at: int) -> Bytes | None:
    """The batch of a flexible version whose size stands at `at`, if no tagged fields come after it."""
    size = frame[at]
    at += 1
    if size > 127:
        size, at = read_rest_of_uvarint(frame, at, size)
    end = at + size - 1
    return frame[at:end] if frame[end:] == _NO_TAGS else None


def _remember(known: dict[bytes, T], start: bytes, one: T) -> None:
    if len(known) >= KNOWN_MAX:
        known.clear()
    known[start] = one


@cache
def _layout(before_bytes: int, after_bytes: int) -> Struct:
    """Of a frame with an answer: its size, the correlation id, and the numbers between bytes that are known."""
    return Struct(f"{RESPONSE_HEADER.format}{before_bytes}s{NUMBERS.format[1:]}{after_bytes}s")


@short_way(ProduceRequest)
def short_produce(version: int) -> ShortProduce | None:
    return ShortProduce(version) if version >= LOG_START_OFFSET_FROM else None
