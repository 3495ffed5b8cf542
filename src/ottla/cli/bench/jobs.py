"""What one client process does in a benchmark, and what it tells.

Each function runs in a process of its own: it connects, waits for the others at the gate, works, tells of its progress
while it does, and returns a `Done`. Nothing is measured before the gate opens.
"""

import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from confluent_kafka import Consumer as RawConsumer
from confluent_kafka import Producer as RawProducer
from confluent_kafka import TopicPartition as RawPartition

from ottla.cli.bench.histogram import Histogram

TELL_EVERY = 20_000
CONNECT_TIMEOUT_S = 15.0
STALL_TIMEOUT_S = 30.0
"""A job that hears nothing from the broker for so long gives up."""
_SENT_AT = struct.Struct(">q")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    topic: str
    settings: Mapping[str, Any]
    """librdkafka's."""
    records: int
    size_bytes: int
    rate: float | None = None
    partitions: Sequence[int] = ()
    """Those that this process reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    records: int
    value_bytes: int
    started_s: float
    """On the machine's monotonic clock, which all processes share."""
    ended_s: float
    latencies: Mapping[int, int] = field(default_factory=dict)
    """A Histogram's counts."""


class Starter(Protocol):
    """What a job knows of the one who started it."""

    def wait_for_others(self) -> None: ...

    def tell_progress(self, records: int) -> None:
        """So many more since the last time."""


def produce(job: Job, starter: Starter) -> Done:
    """As many records as fast as they go; latency is from the call to its acknowledgement."""
    producer = RawProducer({**job.settings})
    producer.list_topics(job.topic, timeout=CONNECT_TIMEOUT_S)
    value = bytes(job.size_bytes)
    seen = Histogram()
    failures: list[str] = []

    def on_delivery(error: Any, message: Any) -> None:
        if error is not None:
            failures.append(error.str())
        else:
            seen.add(int(message.latency() * 1_000_000))

    starter.wait_for_others()
    started_s = time.monotonic()
    for number in range(job.records):
        while True:
            try:
                producer.produce(job.topic, value, on_delivery=on_delivery)
                break
            except BufferError:
                producer.poll(0.1)
        if number % 256 == 0:
            producer.poll(0)
        if number % TELL_EVERY == TELL_EVERY - 1:
            starter.tell_progress(TELL_EVERY)
    producer.flush(STALL_TIMEOUT_S)
    return _sent(job, producer, failures, seen, started_s)


def _sent(job: Job, producer: Any, failures: list[str], seen: Histogram, started_s: float) -> Done:
    if failures or len(producer):
        reason = failures[0] if failures else f"not acknowledged within {STALL_TIMEOUT_S:g} s"
        raise RuntimeError(f"{len(failures) + len(producer)} of {job.records} records were not written: {reason}")
    return Done(
        records=job.records,
        value_bytes=job.records * job.size_bytes,
        started_s=started_s,
        ended_s=time.monotonic(),
        latencies=seen.counts,
    )


def consume(job: Job, starter: Starter) -> Done:
    """Reads `records` of its partitions from their beginning."""
    consumer = RawConsumer({**job.settings})
    consumer.list_topics(job.topic, timeout=CONNECT_TIMEOUT_S)
    starter.wait_for_others()
    started_s = time.monotonic()
    stall = _Stall()
    consumer.assign([RawPartition(job.topic, partition, 0) for partition in job.partitions])
    count = size = told = 0
    while count < job.records:
        messages = consumer.consume(min(10_000, job.records - count), 0.1)
        size += sum(_checked_size(message) for message in messages)
        count += len(messages)
        if messages:
            stall.heard()
        stall.check()
        if count - told >= TELL_EVERY:
            starter.tell_progress(count - told)
            told = count
    done = Done(records=count, value_bytes=size, started_s=started_s, ended_s=time.monotonic())
    consumer.close()
    return done


def send_at_rate(job: Job, starter: Starter) -> Done:
    """Each record says when it should have been sent, so that a stall of ours counts as what it is: latency."""
    producer = RawProducer({**job.settings})
    producer.list_topics(job.topic, timeout=CONNECT_TIMEOUT_S)
    padding = bytes(max(job.size_bytes - _SENT_AT.size, 0))
    interval_ns = int(1_000_000_000 / (job.rate or 1.0))
    failures: list[str] = []

    def on_delivery(error: Any, message: Any) -> None:
        if error is not None:
            failures.append(error.str())

    starter.wait_for_others()
    started_s = time.monotonic()
    first_ns = time.monotonic_ns()
    for number in range(job.records):
        due_ns = first_ns + number * interval_ns
        while (left_ns := due_ns - time.monotonic_ns()) > 0:
            time.sleep(left_ns / 1_000_000_000)
        producer.produce(job.topic, _SENT_AT.pack(due_ns) + padding, on_delivery=on_delivery)
        producer.poll(0)
    producer.flush(STALL_TIMEOUT_S)
    return _sent(job, producer, failures, Histogram(), started_s)


def receive_timed(job: Job, starter: Starter) -> Done:
    """The other end of `send_at_rate`: latency is from when a record was due to when it is here."""
    consumer = RawConsumer({**job.settings})
    consumer.list_topics(job.topic, timeout=CONNECT_TIMEOUT_S)
    consumer.assign([RawPartition(job.topic, partition, 0) for partition in job.partitions])
    consumer.poll(1.0)  # nothing is there yet, but now it fetches
    starter.wait_for_others()
    started_s = time.monotonic()
    stall = _Stall()
    seen = Histogram()
    while seen.total < job.records:
        message = consumer.poll(0.1)
        now_ns = time.monotonic_ns()
        if message is None:
            stall.check()
            continue
        _checked_size(message)
        stall.heard()
        (due_ns,) = _SENT_AT.unpack_from(message.value())
        seen.add((now_ns - due_ns) // 1_000)
        if seen.total % 1_000 == 0:
            starter.tell_progress(1_000)
    done = Done(
        records=seen.total,
        value_bytes=seen.total * job.size_bytes,
        started_s=started_s,
        ended_s=time.monotonic(),
        latencies=seen.counts,
    )
    consumer.close()
    return done


def _checked_size(message: Any) -> int:
    if message.error() is not None:
        raise RuntimeError(message.error().str())
    return len(message)


class _Stall:
    """Notices that the broker has gone silent."""

    def __init__(self) -> None:
        self._heard_s = time.monotonic()

    def heard(self) -> None:
        self._heard_s = time.monotonic()

    def check(self) -> None:
        if time.monotonic() - self._heard_s > STALL_TIMEOUT_S:
            raise RuntimeError(f"no record came for {STALL_TIMEOUT_S:g} s")
