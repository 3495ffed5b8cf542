"""What the tests of compaction share: logs with keys, and a whole compaction in one call."""

from collections.abc import Sequence

from ottla.config import COMPACT, CleanerConfig
from ottla.protocol.records import Compression, Record, build_batch, iter_batches, read_records
from ottla.storage.compaction import compact
from ottla.storage.compaction_plan import Plan, plan, task_of
from ottla.storage.compaction_swap import Swap
from ottla.storage.compaction_task import Done, Task
from ottla.storage.log import Log

from .batches import NOW_MS

CONFIG = CleanerConfig()
COMPACTED = frozenset({COMPACT})
DAY_MS = 86_400_000

Pair = tuple[bytes | None, bytes | None]


def keyed(
    *pairs: Pair,
    timestamp_ms: int = NOW_MS,
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    transactional: bool = False,
    compression: Compression = Compression.NONE,
) -> bytes:
    """One batch of keys and values, each record a millisecond after the one before."""
    return build_batch(
        [Record(key=key, value=value, timestamp_ms=timestamp_ms + at) for at, (key, value) in enumerate(pairs)],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
        compression=compression,
    )


def nothing(_size_bytes: int) -> None:
    """No limit on reading and writing."""


def planned(log: Log, *, now_ms: int = NOW_MS, high_watermark: int | None = None) -> Plan | None:
    """With everything in the segments synced, as a checkpoint would leave it."""
    log.sync()
    log.journaled_from = log.end_offset
    return plan(log, high_watermark=log.end_offset if high_watermark is None else high_watermark, now_ms=now_ms)


def compacted(log: Log, found: Plan, *, now_ms: int = NOW_MS, config: CleanerConfig = CONFIG) -> tuple[Swap, Done]:
    """The new files are written, and go no further yet. Task and result travel as they do between processes."""
    task = Task.from_json(task_of(found, config, now_ms=now_ms).to_json())
    done = Done.from_json(compact(log.disk, task, nothing).to_json())
    return Swap(found, done), done


def go_on(swap: Swap) -> bool:
    """As the cleaner does: a part of a step, and a sync when it is through. False if there is none."""
    if not swap.step():
        return False
    if swap.needs_sync:
        swap.sync()
    return True


def put_in_place(swap: Swap) -> None:
    assert swap.begin()
    while go_on(swap):
        pass
    for deleted in swap.deleted:
        deleted.remove()


def clean(log: Log, *, now_ms: int = NOW_MS, config: CleanerConfig = CONFIG) -> Done | None:
    """Roll and compact everything; None if there is nothing."""
    log.roll(now_ms)
    found = planned(log, now_ms=now_ms)
    if found is None:
        return None
    swap, done = compacted(log, found, now_ms=now_ms, config=config)
    put_in_place(swap)
    return done


def records_of(log: Log) -> list[Record]:
    found: list[Record] = []
    offset = log.start_offset
    while offset < log.written_offset:
        data = log.read(offset, 400, upto_offset=log.written_offset, min_one_batch=True)
        if not data:
            break
        for one in iter_batches(data):
            if not one.is_control:
                found += [record for record in read_records(one.data) if record.offset >= offset]
            offset = one.last_offset + 1
    return found


def pairs_of(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in records_of(log)]


def headers_of(log: Log) -> Sequence[tuple[int, int, int]]:
    """Base offset, last offset and record count of every batch."""
    found = []
    for segment in log.segments:
        data = b"".join(bytes(one) for one in segment.scan())
        found += [(one.base_offset, one.last_offset, one.record_count) for one in iter_batches(data)]
    return found
