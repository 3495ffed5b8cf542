"""Which offsets a batch reads, and how they fall into Spark's tasks. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

from pyspark_ottla.decoding import Range
from pyspark_ottla.offsets import Partition

__all__ = ["limit_offsets", "plan_tasks"]

SMALL_TASK_RECORDS: Final = 2_000
"""Ranges of fewer records share a task: one more Python task costs about 40 ms, this many records less than 5 ms."""


def limit_offsets(start: Mapping[Partition, int], end: Mapping[Partition, int], at_most: int) -> dict[Partition, int]:
    """An end no more than about `at_most` records after the start, in proportion to what each partition has.

    Every partition that has anything moves by at least one record, so that none starves.
    """
    sizes = {at: max(0, end[at] - start.get(at, end[at])) for at in end}
    total = sum(sizes.values())
    if total <= at_most:
        return dict(end)
    return {
        at: end[at] if not size else min(end[at], end[at] - size + max(1, at_most * size // total))
        for at, size in sizes.items()
    }


def plan_tasks(ranges: Sequence[Range], tasks_min: int | None, records_max: int | None) -> list[list[Range]]:
    """The ranges of each task. Empty ranges have none."""
    pieces = [piece for found in ranges if found.end > found.start for piece in _cut(found, records_max)]
    if tasks_min is not None and len(pieces) < tasks_min:
        return [[piece] for piece in _divide(pieces, tasks_min)]
    if tasks_min is not None or records_max is not None:
        return [[piece] for piece in pieces]
    return _packed(pieces)


def _size(of: Range) -> int:
    return of.end - of.start


def _cut(whole: Range, records_max: int | None) -> list[Range]:
    return [whole] if not records_max else _split(whole, -(-_size(whole) // records_max))


def _divide(pieces: list[Range], tasks_min: int) -> list[Range]:
    """Each in as many as its share of all records asks for."""
    total = sum(map(_size, pieces))
    return [part for piece in pieces for part in _split(piece, max(1, round(tasks_min * _size(piece) / total)))]


def _split(whole: Range, count: int) -> list[Range]:
    size = _size(whole)
    count = max(1, min(count, size))
    edges = [whole.start + size * index // count for index in range(count + 1)]
    return [
        Range(topic=whole.topic, topic_id=whole.topic_id, partition=whole.partition, start=start, end=end)
        for start, end in pairwise(edges)
    ]


def _packed(pieces: list[Range]) -> list[list[Range]]:
    tasks: list[list[Range]] = []
    small: list[Range] = []
    for piece in pieces:
        if _size(piece) >= SMALL_TASK_RECORDS:
            tasks.append([piece])
            continue
        if small and sum(map(_size, small)) + _size(piece) > SMALL_TASK_RECORDS:
            tasks.append(small)
            small = []
        small.append(piece)
    return [*tasks, small] if small else tasks
