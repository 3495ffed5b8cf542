"""The Fetch of a follower that names one partition, and its answer: numbers at known places.

Where records come one at a time, nearly every fetch between brokers is of this kind: one partition has moved. Such a
request, and an answer about one partition without an error, have a fixed layout but for the records at the end. So they
are written and read at once, without the messages that the general codec builds; what is not exactly of this kind is
left to that. On the wire there is no difference.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any, ClassVar

from ottla.protocol.codec import codec_for
from ottla.protocol.messages.fetch import FetchRequest, FetchResponse
from ottla.protocol.primitives import read_rest_of_uvarint, uvarint

if TYPE_CHECKING:
    from ottla.ports import Bytes
    from ottla.types import TopicId

VERSION = 17

_REQUEST = Struct(">iiibiiB16sBiiqiqi7siqB")
"""Wait, least and most bytes, isolation, session and its epoch; one topic; one partition: index, leader epoch, offset,
last epoch, start, most bytes; no tags, nothing forgotten, no rack; and who asks, as a tagged field."""
_ONE = 2
"""The length of an array is written plus one."""
_REST = bytes((0, 0, 1, 1, 1, 1, 13))
"""No tags of the partition and of the topic, nothing forgotten, no rack; one tag, the replica's state, of 13 bytes."""

_ANSWER = Struct(">ihiB16sBihqqqBi")
"""Throttle time, error, session; one topic; one partition: index, error, high watermark, stable offset, start, no
aborted transactions, no preferred replica. The records follow."""
_NO_TAGS = b"\0\0\0"
"""Of the partition, the topic and the answer."""
_NONE = -1


class OneFetch:
    """A request that is encoded already. To the one who sends it, it is like any other."""

    __slots__ = ("body",)

    api_key: ClassVar[int] = FetchRequest.api_key
    versions: ClassVar[tuple[int, int]] = (VERSION, VERSION)

    def __init__(
        self,
        *,
        max_wait_ms: int,
        max_bytes: int,
        session_id: int,
        session_epoch: int,
        topic_id: TopicId,
        index: int,
        leader_epoch: int,
        offset: int,
        last_epoch: int,
        start_offset: int,
        partition_max_bytes: int,
        replica_id: int,
        replica_epoch: int,
    ) -> None:
        self.body = _REQUEST.pack(
            max_wait_ms, 1, max_bytes, 0, session_id, session_epoch, _ONE, topic_id, _ONE, index, leader_epoch, offset,
            last_epoch, start_offset, partition_max_bytes, _REST, replica_id, replica_epoch, 0,
        )  # fmt: skip

    @staticmethod
    def encode(request: OneFetch, out: list[Bytes]) -> None:
        out.append(request.body)

    @staticmethod
    def decode(frame: memoryview, at: int) -> tuple[OneAnswer | FetchResponse, int]:
        """The answer to it, which may be about more than it named, or an error."""
        answer = read_answer(frame, at)
        return (answer, len(frame)) if answer is not None else codec_for(FetchResponse, VERSION).decode(frame, at)


class OneAnswer:
    """What a leader says of one partition."""

    __slots__ = ("high_watermark", "index", "records", "session_id", "start_offset", "topic_id")

    error_code = 0

    def __init__(
        self, session_id: int, topic_id: TopicId, index: int, high_watermark: int, start_offset: int, records: Bytes
    ) -> None:
        self.session_id = session_id
        self.topic_id = topic_id
        self.index = index
        self.high_watermark = high_watermark
        self.start_offset = start_offset
        self.records = records


def read_request(frame: Bytes, at: int) -> tuple[Any, ...] | None:
    """Arguments of OneFetch, in their order, of the request whose body begins at `at`; None if it is another kind."""
    if len(frame) - at != _REQUEST.size:
        return None
    (
        wait_ms, _, max_bytes, _, session_id, session_epoch, topics, topic_id, partitions, index, leader_epoch, offset,
        last_epoch, start_offset, partition_bytes, rest, replica_id, replica_epoch, tags,
    ) = _REQUEST.unpack_from(frame, at)  # fmt: skip
    if topics != _ONE or partitions != _ONE or rest != _REST or tags or replica_id < 0:
        return None
    return (
        wait_ms, max_bytes, session_id, session_epoch, topic_id, index, leader_epoch, offset, last_epoch, start_offset,
        partition_bytes, replica_id, replica_epoch,
    )  # fmt: skip


def write_answer(answer: OneAnswer) -> bytes:
    """The body of the answer."""
    records = answer.records
    head = _ANSWER.pack(
        0, 0, answer.session_id, _ONE, answer.topic_id, _ONE, answer.index, 0, answer.high_watermark, _NONE,
        answer.start_offset, 0, _NONE,
    )  # fmt: skip
    return b"".join((head, uvarint(len(records) + 1), records, _NO_TAGS))


def read_answer(frame: memoryview, at: int) -> OneAnswer | None:
    """The answer whose body begins at `at`; None if it is another kind."""
    at_records = at + _ANSWER.size
    if len(frame) <= at_records:
        return None
    (
        throttle_ms, error, session_id, topics, topic_id, partitions, index, partition_error, high_watermark, _, start,
        aborted, preferred,
    ) = _ANSWER.unpack_from(frame, at)  # fmt: skip
    if throttle_ms or error or topics != _ONE or partitions != _ONE or partition_error or aborted or preferred != _NONE:
        return None
    size, at_records = frame[at_records], at_records + 1
    if size > 127:
        size, at_records = read_rest_of_uvarint(frame, at_records, size)
    end = at_records + size - 1
    if not size or frame[end:] != _NO_TAGS:
        return None
    return OneAnswer(session_id, topic_id, index, high_watermark, start, frame[at_records:end])
