"""Produce and consume throughput over what a user sets: record size, partitions, acks, linger, compression.

All combinations take an hour and a half. Most of them tell nothing new, so the plan begins at a base case (1 KB
records, 6 partitions, acks=all, linger 5 ms, no compression, batches of 16 KiB as the Java client makes them), varies
one factor at a time, and adds the corners where factors are known to work on each other: small records in many
partitions, small records compressed, and librdkafka's own batches of up to 1 MB.
"""

import itertools
from collections.abc import Iterator

from bench.loads import Workload, consume, rd

BATCH_BYTES = 16384
RECORD_BYTES = (100, 1000)
PARTITIONS = (1, 6, 64)
ACKS = ("1", "all")
LINGERS_MS = (0, 5)
COMPRESSIONS = ("none", "lz4", "zstd")
CONSUMED = {100: 10_000_000, 1000: 2_500_000}
"""How many records of a size are read: about a second's worth."""


def _produce(
    name: str,
    title: str,
    *,
    record_bytes: int = 1000,
    partitions: int = 6,
    acks: str = "all",
    linger_ms: int = 5,
    compression: str = "none",
    batch_bytes: int | str = BATCH_BYTES,
) -> Workload:
    measure = rd(
        name,
        "produce",
        record_bytes=record_bytes,
        partitions=partitions,
        acks=acks,
        linger_ms=linger_ms,
        compression=compression,
        batch_bytes=batch_bytes,
    )
    return Workload(name=name, title=title, measure=measure)


def _consume(
    name: str, title: str, *, record_bytes: int = 1000, partitions: int = 6, compression: str = "none"
) -> Workload:
    measure = consume(
        name,
        record_bytes=record_bytes,
        records=CONSUMED[record_bytes],
        partitions=partitions,
        compression=compression,
    )
    return Workload(name=name, title=title, measure=measure, extra_s=2.0)


VARIED = (
    _produce("produce_64p", "1 KB in 16 KiB batches to 64 partitions", partitions=64),
    _produce("produce_acks1", "1 KB in 16 KiB batches, acks=1", acks="1"),
    _produce("produce_linger0", "1 KB in 16 KiB batches, linger 0", linger_ms=0),
    _produce("produce_lz4", "1 KB in 16 KiB batches, lz4", compression="lz4"),
    _produce("produce_zstd", "1 KB in 16 KiB batches, zstd", compression="zstd"),
    _produce(
        "produce_100b_64p_linger0", "100 B to 64 partitions, linger 0", record_bytes=100, partitions=64, linger_ms=0
    ),
    _produce("produce_100b_zstd", "100 B in 16 KiB batches, zstd", record_bytes=100, compression="zstd"),
    _consume("consume_64p", "consume 1 KB from 64 partitions", partitions=64),
    _consume("consume_lz4", "consume 1 KB, lz4", compression="lz4"),
    _consume("consume_zstd", "consume 1 KB, zstd", compression="zstd"),
)
"""Beside those that have goals of their own, in `bench.workloads`."""

COVERING = (
    "batches_1kb",
    "batches_100b",
    "one_partition_produce",
    "produce_64p",
    "produce_acks1",
    "produce_linger0",
    "produce_lz4",
    "produce_zstd",
    "default_1kb",
    "default_100b",
    "produce_100b_64p_linger0",
    "produce_100b_zstd",
    "consume_1kb",
    "consume_100b",
    "one_partition_consume",
    "consume_64p",
    "consume_lz4",
    "consume_zstd",
)
"""The base case first, then one factor at a time, then the corners; the same for reading."""
SHORT = ("batches_1kb", "batches_100b", "default_1kb", "default_100b", "consume_1kb", "consume_100b")


def _product() -> Iterator[Workload]:
    for record_bytes, partitions, compression in itertools.product(RECORD_BYTES, PARTITIONS, COMPRESSIONS):
        where = f"{record_bytes} B, {partitions} partitions, {compression}"
        name = f"{record_bytes}b_{partitions}p_{compression}"
        for acks, linger_ms in itertools.product(ACKS, LINGERS_MS):
            yield _produce(
                f"all_produce_{name}_acks{acks}_linger{linger_ms}",
                f"produce {where}, acks={acks}, linger {linger_ms}",
                record_bytes=record_bytes,
                partitions=partitions,
                acks=acks,
                linger_ms=linger_ms,
                compression=compression,
            )
        yield _consume(
            f"all_consume_{name}",
            f"consume {where}",
            record_bytes=record_bytes,
            partitions=partitions,
            compression=compression,
        )


PRODUCT = tuple(_product())
