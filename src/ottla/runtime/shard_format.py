"""How the records of a shard stand in its log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from ottla.protocol.records import BatchHeader, Record, build_batch

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class ShardFormat(Generic[R]):
    to_batches: Callable[[Sequence[R], int], Sequence[bytes]]
    """The batches of some records, given the time in ms."""
    from_batch: Callable[[BatchHeader, Record], R | None]
    """A record, given its batch; None for one that the shard does not know. Raises ProtocolError."""


def plain_format(
    encode: Callable[[R], tuple[bytes | None, bytes | None]],
    decode: Callable[[bytes | None, bytes | None], R | None],
) -> ShardFormat[R]:
    """All records of a decision in one batch, so that a crash leaves all of them or none."""

    def to_batches(records: Sequence[R], now_ms: int) -> Sequence[bytes]:
        pairs = [encode(record) for record in records]
        return [
            build_batch(
                [
                    Record(offset=i, timestamp_ms=now_ms, key=key, value=value, headers=())
                    for i, (key, value) in enumerate(pairs)
                ]
            )
        ]

    def from_batch(batch: BatchHeader, record: Record) -> R | None:
        return None if batch.is_control else decode(record.key, record.value)

    return ShardFormat(to_batches, from_batch)
