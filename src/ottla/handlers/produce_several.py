"""Produce, the short way, of several batches for one topic: what Java's client sends when it is busy.

As with one batch (`produce_short`) the beginning is known as a whole, up to the number of batches; then they come, each
with the index of its partition and its size. All of a request is looked through, and its partitions found, before
anything is appended: up to there it may still go the long way.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from struct import error as StructError  # noqa: N812  # it is a class
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ottla.errors import BrokerError, ProtocolError
from ottla.handlers.produce import not_committed, note_refusal, refused, storage_failed
from ottla.handlers.produce_known import NUMBERS, KnownStart
from ottla.handlers.registry import NOT_TAKEN
from ottla.protocol.framing import FRAME_SIZE, RESPONSE_HEADER
from ottla.protocol.messages.produce import PartitionProduceResponse, ProduceResponse
from ottla.protocol.primitives import read_rest_of_uvarint, uvarint
from ottla.services import WITH_COMMIT
from ottla.storage.log import Origin

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.ports import Bytes
    from ottla.protocol.messages.produce import ProduceRequest
    from ottla.replication.partition import Partition
    from ottla.services import Receiver, RequestContext

_NUMBER = Struct(">i")
_pack_number: Final = _NUMBER.pack
_unpack_number: Final[Callable[[Bytes, int], tuple[int]]] = _NUMBER.unpack_from
_NUMBER_BYTES: Final = 4
_NO_TAGS = b"\0\0"
"""Of the topic and the request."""
_FIELDS = len(NUMBERS.format)
"""What stands in an answer for each partition: its numbers, and the bytes behind them instead of the byte order."""
_CLIENT: Final = Origin.CLIENT

Wait: TypeAlias = "tuple[Partition, int, int]"
"""A partition, the offset that must be committed, and the place of the batch in its request."""


class Several(KnownStart):
    """Serves requests with any number of batches."""

    __slots__ = ("_on_failure", "_start")

    def __init__(self, request: ProduceRequest, version: int) -> None:
        super().__init__(request, version)
        self._on_failure = self._refused_reply
        self._start = self._before.removesuffix(_count(1, self._is_flexible))

    def serve(
        self, frame: Bytes, at: int, ctx: RequestContext, receiver: Receiver | None = None, correlation_id: int = 0
    ) -> Any:
        """The answer, given where the number of batches stands."""
        services, now_ms = ctx.services, ctx.now_ms
        if services.quotas.active or services.room.is_full:
            return NOT_TAKEN
        try:
            batches = self.batches(frame, at)
            partitions = self._partitions(batches, ctx)
        except (IndexError, StructError, ProtocolError, BrokerError):
            return NOT_TAKEN  # the long way says what is wrong
        if not partitions:
            return NOT_TAKEN
        committer, between = services.committer, self._between
        append = committer.append
        told: list[Any] = []
        waits: list[Wait] | None = [] if self._acks_all and services.partitions.has_followers else None
        for partition, (index, records) in zip(partitions, batches, strict=True):
            try:
                offset = append(partition, records, now_ms, _CLIENT)
            except BrokerError as error:
                return self._with_refusals(error, told, waits, partitions, batches, ctx)
            log = partition.log
            if waits is not None:
                waits.append((partition, log.end_offset, len(waits)))
            appended_ms = now_ms if log.stamps_append_time else -1
            told += (index, 0, offset, appended_ms, log.start_offset, between)
        told[-1] = self._after
        before = self._start + _count(len(batches), self._is_flexible)
        layout = _layout(len(before), len(between), len(self._after), len(batches))
        reply = layout.pack(layout.size - FRAME_SIZE.size, correlation_id, before, *told)
        if waits is not None:
            answer = Waiting(self, reply[self._header_bytes :], told)
            return services.acks.when_committed(answer, waits, answer.refuse, self._timeout_ms).then(Waiting.told)
        if receiver is None:
            return committer.after_commit(reply[self._header_bytes :], self._refused)
        committer.replies.append((receiver, reply, self._on_failure))
        return WITH_COMMIT

    def batches(self, frame: Bytes, at: int) -> list[tuple[int, Bytes]]:
        """Index and batch of each partition; none if there is more in the request, or something is missing.

        Raises IndexError, StructError and ProtocolError, but not always where the frame is not what it should be.
        """
        batches: list[tuple[int, Bytes]] = []
        count, at = self._read_count(frame, at)
        if self._is_flexible:
            for _ in range(count):
                (index,) = _unpack_number(frame, at)
                size = frame[at + _NUMBER_BYTES]
                at += _NUMBER_BYTES + 1
                if size > 127:
                    size, at = read_rest_of_uvarint(frame, at, size)
                end = at + size - 1
                if not size or frame[end]:
                    return []  # no batch, or tagged fields
                batches.append((index, frame[at:end]))
                at = end + 1
            return batches if frame[at:] == _NO_TAGS else []
        for _ in range(count):
            (index,) = _unpack_number(frame, at)
            (size,) = _unpack_number(frame, at + _NUMBER_BYTES)
            at += 2 * _NUMBER_BYTES
            if size < 0:
                return []
            batches.append((index, frame[at : at + size]))
            at += size
        return batches if at == len(frame) else []

    def _partitions(self, batches: list[tuple[int, Bytes]], ctx: RequestContext) -> list[Partition]:
        """Those that are written to; none if one of them does not take what comes this way. Raises BrokerError."""
        acks_all, led = self._acks_all, self._led
        partitions: list[Partition] = []
        for index, _ in batches:
            partition = led.get(index)
            if partition is None:
                partition = self._find(ctx.services.partitions, index)
                led = self._led
            if acks_all and not partition.is_safe:
                return []
            partitions.append(partition)
        return partitions

    def _with_refusals(
        self,
        error: BrokerError,
        told: list[Any],
        waits: list[Wait] | None,
        partitions: list[Partition],
        batches: list[tuple[int, Bytes]],
        ctx: RequestContext,
    ) -> Any:
        """The answer where not all can be appended: those in `told` are, the next one was refused."""
        services, now_ms = ctx.services, ctx.now_ms
        answers = appended(told)
        number = len(answers)
        answers.append(self._refused_at(batches[number][0], error, ctx))
        for partition, (index, records) in zip(partitions[number + 1 :], batches[number + 1 :], strict=True):
            try:
                offset = services.committer.append(partition, records, now_ms, _CLIENT)
            except BrokerError as another:
                answers.append(self._refused_at(index, another, ctx))
                continue
            log = partition.log
            if waits is not None:
                waits.append((partition, log.end_offset, len(answers)))
            answers += appended([index, 0, offset, now_ms if log.stamps_append_time else -1, log.start_offset, b""])
        response = self.answer(answers)
        if waits:
            in_answer = [(partition, offset, (answers, number)) for partition, offset, number in waits]
            return services.acks.when_committed(response, in_answer, not_committed, self._timeout_ms)
        return services.committer.after_commit(response, storage_failed)

    def _refused_at(self, index: int, error: BrokerError, ctx: RequestContext) -> PartitionProduceResponse:
        note_refusal(self._topic, self._topic_id, index, error, ctx)
        return refused(index, error)

    def _refused(self, answer: bytes, error: BrokerError) -> ProduceResponse:
        """What to say instead of `answer`: the commit has failed."""
        return self.answer(self._all_refused(answer, len(self._start) - (1 if self._is_flexible else 0), error))

    def _refused_reply(self, reply: bytes, error: BrokerError) -> bytes:
        """The same of a whole frame."""
        return self._instead_of(reply, self._all_refused(reply, RESPONSE_HEADER.size + len(self._start), error))

    def _all_refused(self, answer: bytes, at: int, error: BrokerError) -> list[PartitionProduceResponse]:
        """Of an answer in which nobody is refused yet, given where the number of partitions stands."""
        count, at = self._read_count(answer, at)
        each_bytes = NUMBERS.size + len(self._between)
        return [refused(_unpack_number(answer, at + number * each_bytes)[0], error) for number in range(count)]

    def _read_count(self, frame: Bytes, at: int) -> tuple[int, int]:
        """How many elements follow, and where."""
        if not self._is_flexible:
            return _unpack_number(frame, at)[0], at + _NUMBER_BYTES
        count = frame[at]
        at += 1
        if count > 127:
            count, at = read_rest_of_uvarint(frame, at, count)
        return count - 1, at


class Waiting:
    """An answer that waits for followers; what they do not get in time is refused in it."""

    __slots__ = ("_answer", "_of", "_refused", "_told")

    def __init__(self, of: Several, answer: bytes, told: list[Any]) -> None:
        self._of = of
        self._answer = answer
        self._told = told
        self._refused: dict[int, BrokerError] = {}

    def refuse(self, number: int, error: BrokerError) -> None:
        """What was appended at this place of the request may be taken back, or is not safe enough yet."""
        self._refused[number] = error

    def told(self) -> bytes | ProduceResponse:
        if not self._refused:
            return self._answer
        answers = appended(self._told)
        for number, error in self._refused.items():
            answers[number] = refused(answers[number].index, error)
        return self._of.answer(answers)


def appended(told: list[Any]) -> list[PartitionProduceResponse]:
    """What an answer says of partitions, given what is packed into it."""
    return [
        PartitionProduceResponse(
            index=index, base_offset=offset, log_append_time_ms=appended_ms, log_start_offset=start_offset
        )
        for index, _, offset, appended_ms, start_offset, _ in zip(*[iter(told)] * _FIELDS, strict=True)
    ]


def _count(number: int, is_flexible: bool) -> bytes:
    """How many elements follow."""
    return uvarint(number + 1) if is_flexible else _pack_number(number)


@lru_cache(maxsize=64)
def _layout(before_bytes: int, between_bytes: int, after_bytes: int, count: int) -> Struct:
    """Of a frame with an answer: its size, the correlation id, and numbers between bytes that are known."""
    numbers = NUMBERS.format[1:]
    each = f"{numbers}{between_bytes}s" * (count - 1)
    return Struct(f"{RESPONSE_HEADER.format}{before_bytes}s{each}{numbers}{after_bytes}s")
