"""What the tests of the log share: batches, logs, and a look at what a log holds."""

from collections.abc import Sequence
from typing import Any

from ottla.config import LogConfig
from ottla.ports import Disk
from ottla.protocol.control import build_end_txn_marker
from ottla.protocol.records import Compression, Record, build_batch, iter_batches, read_records
from ottla.storage.log import Log, Origin
from ottla.types import TopicPartition

NOW_MS = 1_700_000_000_000
TOPIC_ID = bytes(range(16))
PARTITION = TopicPartition("t", 0)
DIRECTORY = "t-0"


def batch(
    *values: bytes,
    timestamp_ms: int | Sequence[int] = NOW_MS,
    key: bytes | None = None,
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    transactional: bool = False,
    compression: Compression = Compression.NONE,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """One batch of the given values; a single timestamp is that of all of them."""
    values = values or (b"value",)
    times = [timestamp_ms] * len(values) if isinstance(timestamp_ms, int) else timestamp_ms
    return build_batch(
        [Record(key=key, value=value, timestamp_ms=time) for value, time in zip(values, times, strict=True)],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
        compression=compression,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
    )


def marker(*, commits: bool, producer_id: int, epoch: int = 0, coordinator_epoch: int = 0) -> bytes:
    return build_end_txn_marker(
        committed=commits,
        producer_id=producer_id,
        producer_epoch=epoch,
        coordinator_epoch=coordinator_epoch,
        timestamp_ms=NOW_MS,
    )


def open_log(
    disk: Disk,
    *,
    clean: bool = True,
    recovery_point: int = 0,
    start_offset: int = 0,
    now_ms: int = NOW_MS,
    **config: Any,
) -> Log:
    return Log.open(
        disk,
        DIRECTORY,
        PARTITION,
        TOPIC_ID,
        LogConfig(**config),
        clean=clean,
        recovery_point=recovery_point,
        start_offset=start_offset,
        now_ms=now_ms,
    )


def append(
    log: Log, *batches: bytes, leader_epoch: int = 0, now_ms: int = NOW_MS, origin: Origin = Origin.CLIENT
) -> int:
    """Append and write. Returns the offset of the first batch."""
    offsets = [log.append_as_leader(one, leader_epoch=leader_epoch, now_ms=now_ms, origin=origin) for one in batches]
    commit(log)
    return offsets[0]


def commit(log: Log) -> None:
    """Write what is pending, as if a journal had made it durable."""
    log.write_pending()
    log.mark_durable(log.written_offset)


def fill(log: Log, count: int, *, size_bytes: int = 100, start_ms: int = NOW_MS, step_ms: int = 1) -> None:
    """`count` batches of one record, each a bit younger than the one before."""
    for number in range(count):
        append(log, batch(bytes(size_bytes), timestamp_ms=start_ms + number * step_ms))


def contents(log: Log) -> list[tuple[int, bytes | None]]:
    """(offset, value) of every record that can be read, as a consumer would get them, in small fetches."""
    found: list[tuple[int, bytes | None]] = []
    offset = log.start_offset
    while offset < log.written_offset:
        data = log.read(offset, 300, upto_offset=log.written_offset, min_one_batch=True)
        for one in iter_batches(data):
            found += [(record.offset, record.value) for record in read_records(one.data) if record.offset >= offset]
            offset = one.last_offset + 1
        if not data:
            break
    return found


def read_file(disk: Disk, name: str) -> bytes:
    file = disk.open(f"{DIRECTORY}/{name}")
    return file.pread(file.size(), 0)


def write_file(disk: Disk, name: str, data: bytes) -> None:
    file = disk.open(f"{DIRECTORY}/{name}", create=True)
    file.truncate(0)
    file.pwritev((data,), 0)
