"""How the cost of a request grows: with partitions, with connections, and with the size of a batch.

Requests come from plain sockets, so that the client's own cost is the same everywhere. What brokers add (one node
against three) is in the rows of the other items.
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
        name=name, title=f"200 producers over {count:,} partitions", measure=measure, extra_s=1 + count / 700
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
    *map(_partitions, PARTITIONS),
    *map(_connections, CONNECTIONS),
    *map(_batches, BATCH_RECORDS),
)
NAMES = tuple(workload.name for workload in WORKLOADS)
_LEFT_OUT = frozenset({"growth_partitions_1", "growth_partitions_100", "growth_connections_500", "growth_batch_4"})
SHORT = tuple(name for name in NAMES if name not in _LEFT_OUT)
