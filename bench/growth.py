"""How the cost of a request grows: with partitions, with connections, and with the size of a batch.

Requests come from plain sockets, so that the client's own cost is the same everywhere. What brokers add (one node
against three) is in the rows of the other items. Rows that are held against each other stand side by side, since the
pace of a machine changes; batches come last, for the gigabytes that they leave to be deleted keep the disk busy.
"""

from bench.loads import Workload, raw

PARTITIONS = (1, 6, 100, 1_000, 10_000)
CONNECTIONS = (1, 10, 100, 500, 2_000)
BATCH_RECORDS = (1, 4, 16, 64, 256, 1_000)
"""Of 1,000 bytes each; the largest is as much as a broker takes by default."""
RECORD_BYTES = 1_000


def _partitions(count: int) -> Workload:
    name = f"growth_partitions_{count}"
    measure = raw(name, partitions=count, connections=200, record_bytes=50)
    return Workload(
        name=name, title=f"200 producers over {count:,} partitions", measure=measure, extra_s=1 + count / 2_000
    )


def _connections(count: int) -> Workload:
    name = f"growth_connections_{count}"
    measure = raw(name, connections=count, record_bytes=50)
    return Workload(name=name, title=f"{count:,} producers, one record at a time", measure=measure)


def _batches(records: int) -> Workload:
    name = f"growth_batch_{records}"
    measure = raw(name, connections=6, records=records, record_bytes=RECORD_BYTES)
    return Workload(name=name, title=f"batches of {records:,} x 1 KB, 6 connections", measure=measure)


WORKLOADS = (
    *map(_connections, CONNECTIONS),
    *map(_partitions, PARTITIONS),
    *map(_batches, BATCH_RECORDS),
)
NAMES = tuple(workload.name for workload in WORKLOADS)
_LEFT_OUT = frozenset(
    f"growth_{each}" for each in ("partitions_1", "partitions_100", "connections_500", "batch_4", "batch_64")
)
SHORT = tuple(name for name in NAMES if name not in _LEFT_OUT)
