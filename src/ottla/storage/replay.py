"""What batches that were already accepted say about producers: for followers, recovery and truncation.

The leader checks a batch before it remembers it (`ProducerState.append`); here there is nothing to check any more, and
the same batches in the same order give the same state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.records import BATCH_HEADER, CONTROL_BIT, TRANSACTIONAL_BIT
from ottla.storage.append import read_marker
from ottla.storage.producer_state import ProducerState
from ottla.storage.txn_index import AbortedTransaction

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.ports import Bytes
    from ottla.storage.producer_state import Ended
    from ottla.storage.segment import Segment
    from ottla.storage.snapshots import Snapshots


def replay_batch(batch: Bytes, producers: ProducerState) -> Ended | None:
    """Let `producers` see a batch. Returns the transaction that it ended, if it is a marker that did."""
    fields = BATCH_HEADER.unpack_from(batch)
    base_offset, attributes, last_offset = fields[0], fields[5], fields[0] + fields[6]
    timestamp_ms, producer_id, epoch, base_sequence = fields[8:12]
    if producer_id < 0:
        return None
    if not attributes & CONTROL_BIT:
        producers.replay(
            producer_id,
            epoch,
            base_sequence,
            base_offset,
            last_offset,
            timestamp_ms=timestamp_ms,
            transactional=bool(attributes & TRANSACTIONAL_BIT),
        )
        return None
    marker = read_marker(bytes(batch))
    return marker and producers.end_transaction(producer_id, epoch, marker, base_offset, timestamp_ms)


def note_abort(segment: Segment, ended: Ended) -> None:
    """Put an aborted transaction into the index of the segment that holds its marker."""
    segment.txns.append(
        AbortedTransaction(
            producer_id=ended.producer_id,
            first_offset=ended.first_offset,
            last_offset=ended.last_offset,
            last_stable_offset=ended.last_stable_offset,
        )
    )


def producers_at(segments: Sequence[Segment], snapshots: Snapshots, upto_offset: int) -> ProducerState:
    """The state of the producers after all batches below `upto_offset`: the nearest snapshot, and a scan from there."""
    loaded = snapshots.load(upto_offset)
    from_offset, producers = loaded if loaded is not None else (segments[0].base_offset, ProducerState())
    if from_offset >= upto_offset:
        return producers
    ends = [segment.base_offset for segment in segments[1:]] + [upto_offset]
    for segment, end_offset in zip(segments, ends, strict=True):
        if end_offset > from_offset and segment.base_offset < upto_offset and segment.size_bytes:
            _replay_segment(segment, producers, from_offset, upto_offset)
    return producers


def _replay_segment(segment: Segment, producers: ProducerState, from_offset: int, upto_offset: int) -> None:
    position = segment.locate(from_offset, segment.written)
    if position is None:
        return
    for batch in segment.scan(position):
        base_offset = int.from_bytes(batch[:8])
        if base_offset >= upto_offset:
            return
        if base_offset >= from_offset:
            replay_batch(batch, producers)
