"""What is known of Produce requests that begin with the same bytes: whom they are for, and what stays of their answers.

Requests with one batch, and those with several, are served from it by `produce_short` and `produce_several`.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from ottla.protocol.codec import encode
from ottla.protocol.framing import CORRELATION_ID, CORRELATION_ID_AT, RESPONSE_HEADER
from ottla.protocol.messages.produce import (
    ACKS_ALL,
    BY_TOPIC_ID_FROM,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ottla.replication.partition import Partition
    from ottla.services import Partitions

NUMBERS = Struct(">ihqqq")
"""Partition, error code, base offset, time of the append and log start offset: what differs between answers."""
_SAMPLE = (0x1A2B3C4D, 0, 0x0123456789ABCDEF, 0x1032547698BADCFE, 0x0F1E2D3C4B5A6978)
_SAMPLE_BYTES = NUMBERS.pack(*_SAMPLE)


class KnownStart:
    """What requests that begin with the same bytes have in common, whoever sends them."""

    __slots__ = (
        "_acks_all", "_after", "_before", "_between", "_header_bytes", "_is_by_id", "_is_flexible", "_led",
        "_timeout_ms", "_topic", "_topic_id", "_version",
    )  # fmt: skip

    def __init__(self, request: ProduceRequest, version: int) -> None:
        """Raises ValueError where no answer can be made out of it."""
        topic = request.topic_data[0]
        self._version = version
        self._is_flexible = version >= ProduceRequest.flexible_from
        self._is_by_id = version >= BY_TOPIC_ID_FROM
        self._acks_all = request.acks == ACKS_ALL
        self._timeout_ms = request.timeout_ms
        self._topic = topic.name
        self._topic_id = topic.topic_id
        self._led: Mapping[int, Partition] = {}
        """The topic's partitions, once one was looked up."""
        index, _, base_offset, appended_ms, start_offset = _SAMPLE
        sample = PartitionProduceResponse(
            index=index, base_offset=base_offset, log_append_time_ms=appended_ms, log_start_offset=start_offset
        )
        before, self._after = encode(self.answer([sample]), version).split(_SAMPLE_BYTES)
        _, self._between, _ = encode(self.answer([sample, sample]), version).split(_SAMPLE_BYTES)
        """Behind the numbers of a partition that is not the last one."""
        self._before = b"\0" + before if self._is_flexible else before
        """With what the header has behind the correlation id."""
        self._header_bytes = RESPONSE_HEADER.size + (1 if self._is_flexible else 0)
        """Of an answer's frame, before its body."""

    def _find(self, partitions: Partitions, index: int) -> Partition:
        """One that was not used yet, or of a topic that is not what it was. Raises BrokerError."""
        if self._is_by_id:
            found = partitions.get_by_id(self._topic_id, index)
            self._led = partitions.led_in(self._topic_id)
        else:
            found = partitions.get(self._topic, index)
            self._led = partitions.led_in(self._topic)
        return found

    def answer(self, of_partitions: Sequence[PartitionProduceResponse]) -> ProduceResponse:
        topic = TopicProduceResponse(name=self._topic, topic_id=self._topic_id, partition_responses=of_partitions)
        return ProduceResponse(responses=[topic])

    def _instead_of(self, reply: bytes, of_partitions: Sequence[PartitionProduceResponse]) -> bytes:
        """A whole frame that says this to whom `reply` would have gone."""
        body = encode(self.answer(of_partitions), self._version)
        tags = b"\0" if self._is_flexible else b""
        (correlation_id,) = CORRELATION_ID.unpack_from(reply, CORRELATION_ID_AT)
        return RESPONSE_HEADER.pack(CORRELATION_ID.size + len(tags) + len(body), correlation_id) + tags + body
