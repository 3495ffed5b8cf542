"""How large a cluster must be: from messages, their size, how long they are kept and how often, to brokers.

Pure arithmetic over what was measured (docs/BENCHMARKS.md; a machine of two cores, ext4 on a virtual disk). A broker is
one event loop, so it has one core. Its cost per batch and per byte is fitted to the measurements of 16 KiB batches and
of those that librdkafka makes, which are many times larger:

    of the leader     6.5 µs per 1 KB record in 16 KiB batches, 1.27 µs in large ones
    of a follower     the rest of 32 and 9 µs that all of three nodes take, halved
    of a consumer     0.44 µs per 1 KB record

Disk throughput and network can't be measured for a machine that is not there: they are what the caller says.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from ottla.config.units import SECOND_MS
from ottla.values import value

LEADER_BATCH_US = 85.0
LEADER_BYTE_US = 0.0012
FOLLOWER_BATCH_US = 140.0
FOLLOWER_BYTE_US = 0.0038
CONSUMER_BYTE_US = 0.00045
BATCH_HEADER_BYTES = 61
RECORD_OVERHEAD_BYTES = 10
"""Lengths, offset and time of a record, and the length of a key."""
JOURNAL_SHARE_BYTES = 1 << 20
"""Batches from this size on are synced in their segment instead of being written twice (decisions/0002)."""
INDEX_SHARE = 0.002
"""Indexes beside the segments."""
CORES_OF_A_BROKER = 1.0
PARTITION_BYTES_PER_S = 10_000_000
"""What one partition is given, so that one consumer can follow it and a lost replica is back soon."""
PARTITIONS_OF_A_BROKER_MAX = 1_000
"""As many as were measured: with them a request costs 1.8 times as much as with six."""
PROCESS_BYTES = 200_000_000
CACHE_S = 60
"""Consumers that are this far behind are served from memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What is wanted."""

    messages_per_s: int
    message_bytes: int
    retention_ms: int
    replicas: int = 3
    readers: int = 1
    """Groups that read everything."""
    batch_bytes: int = 16 * 1024
    compression: float = 1.0
    """How many times smaller batches are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One broker's, and how much of it may be used: the rest is for peaks, and for when another broker is lost."""

    disk_bytes: int = 4 * 2**40
    disk_bytes_per_s: int = 250_000_000
    network_bytes_per_s: int = 1_250_000_000
    used_share_max: float = 0.5
    disk_share_max: float = 0.8


@value
class Need:
    """One thing that brokers are needed for."""

    what: str
    total: float
    per_broker: float
    """What one broker has, as far as it may be used."""
    brokers: int


@value
class Plan:
    needs: tuple[Need, ...]
    brokers: int
    """Enough for all needs, for the replicas, and for one to be lost."""
    partitions: int
    stored_bytes: float
    written_bytes_per_s: float
    """By all brokers to their disks."""
    in_bytes_per_s: float
    out_bytes_per_s: float
    cores: float
    memory_bytes_per_broker: float
    remarks: tuple[str, ...]

    @property
    def decided_by(self) -> str:
        return max(self.needs, key=lambda need: need.brokers).what


def plan(wanted: Workload, machine: Machine) -> Plan:
    batch_bytes, records = _batch(wanted)
    batches_per_s = wanted.messages_per_s / records
    bytes_per_s = batches_per_s * batch_bytes
    followers = wanted.replicas - 1
    stored = bytes_per_s * wanted.retention_ms / SECOND_MS * wanted.replicas * (1 + INDEX_SHARE)
    written = bytes_per_s * wanted.replicas * (1 if batch_bytes >= JOURNAL_SHARE_BYTES else 2)
    received = bytes_per_s * wanted.replicas
    sent = bytes_per_s * (followers + wanted.readers)
    cores = _cpu_us(batch_bytes, followers, wanted.readers) * batches_per_s / 1_000_000
    share = machine.used_share_max
    needs = (
        _need("CPU (cores)", cores, CORES_OF_A_BROKER * share),
        _need("disk room (bytes)", stored, machine.disk_bytes * machine.disk_share_max),
        _need("disk writes (bytes/s)", written, machine.disk_bytes_per_s * share),
        _need("network in (bytes/s)", received, machine.network_bytes_per_s * share),
        _need("network out (bytes/s)", sent, machine.network_bytes_per_s * share),
    )
    brokers = max(wanted.replicas, *(need.brokers for need in needs))
    if wanted.replicas > 1:
        brokers = max(brokers, max(need.brokers for need in needs) + 1)
    partitions = _partitions(bytes_per_s, brokers)
    return Plan(
        needs=needs,
        brokers=brokers,
        partitions=partitions,
        stored_bytes=stored,
        written_bytes_per_s=written,
        in_bytes_per_s=received,
        out_bytes_per_s=sent,
        cores=cores,
        memory_bytes_per_broker=PROCESS_BYTES + received * CACHE_S / brokers,
        remarks=tuple(_remarks(wanted, partitions, brokers, records)),
    )


def _batch(wanted: Workload) -> tuple[float, int]:
    """Its size as it is kept, and how many records are in it."""
    record_bytes = wanted.message_bytes + RECORD_OVERHEAD_BYTES
    records = max(1, wanted.batch_bytes // record_bytes)
    return BATCH_HEADER_BYTES + records * record_bytes / wanted.compression, records


def _cpu_us(batch_bytes: float, followers: int, readers: int) -> float:
    """Of all brokers together, for one batch."""
    leader = LEADER_BATCH_US + LEADER_BYTE_US * batch_bytes
    follower = FOLLOWER_BATCH_US + FOLLOWER_BYTE_US * batch_bytes
    return leader + followers * follower + readers * CONSUMER_BYTE_US * batch_bytes


def _need(what: str, total: float, per_broker: float) -> Need:
    return Need(what=what, total=total, per_broker=per_broker, brokers=ceil(total / per_broker))


def _partitions(bytes_per_s: float, brokers: int) -> int:
    """As many for each broker, so that each leads the same."""
    return brokers * max(1, ceil(bytes_per_s / PARTITION_BYTES_PER_S / brokers))


def _remarks(wanted: Workload, partitions: int, brokers: int, records: int) -> list[str]:
    remarks = []
    if wanted.replicas < 3:
        remarks.append(
            "With fewer than three replicas the loss of one broker stops writes with acks=all, or loses data."
        )
    if records == 1:
        remarks.append("Every message is a batch of its own: batches of several would cost brokers a fraction.")
    if partitions * wanted.replicas / brokers > PARTITIONS_OF_A_BROKER_MAX:
        remarks.append(f"More than {PARTITIONS_OF_A_BROKER_MAX} replicas on a broker were not measured.")
    return remarks
