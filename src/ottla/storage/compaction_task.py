"""What a compaction is told and what it tells, as plain values: they go to another process and back, as JSON.

The event loop looks at the log and writes the task; whoever does it sees nothing but the task and the files, none of
which change meanwhile: closed segments, below everything that is still moving.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ottla.storage.txn_index import AbortedTransaction
from ottla.values import value

if TYPE_CHECKING:
    from collections.abc import Sequence


@value
class Source:
    """A segment to be compacted."""

    base_offset: int
    end_offset: int
    """Where the next one begins."""
    size_bytes: int


@value
class LastBatch:
    """What keeps the state of a producer: its last batch, or a marker if none of its batches is remembered."""

    producer_id: int
    epoch: int
    last_offset: int
    """-1: a marker of this epoch."""


@value
class Task:
    directory: str
    sources: Sequence[Source]
    """All segments from the first on, up to where the log may be compacted."""
    first_dirty: int
    """Below it no key is there twice."""
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    map_bytes: int
    """What the map of keys may take."""
    io_bytes_per_s: float
    aborted: Sequence[AbortedTransaction]
    producers: Sequence[LastBatch]

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Task:
        fields: dict[str, Any] = json.loads(text)
        fields["sources"] = [Source(**source) for source in fields["sources"]]
        fields["aborted"] = [AbortedTransaction(**aborted) for aborted in fields["aborted"]]
        fields["producers"] = [LastBatch(**producer) for producer in fields["producers"]]
        return cls(**fields)


@value
class Group:
    """Segments that have become one, which lies beside them under another name."""

    bases: Sequence[int]
    """Of the old ones; the new one has the first of them."""
    size_bytes: int


@value
class Done:
    groups: Sequence[Group]
    clean_offset: int
    """Below it no key is there twice, once the groups are in place."""
    records_read: int
    records_kept: int
    bytes_read: int
    bytes_kept: int
    keys: int
    map_is_full: bool
    """Whether there was more to do than the map could hold."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Done:
        fields: dict[str, Any] = json.loads(text)
        fields["groups"] = [Group(**group) for group in fields["groups"]]
        return cls(**fields)
