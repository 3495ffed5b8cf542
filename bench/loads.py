"""What workloads are made of: a load of one of the drivers on a new topic of a running server."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.native import DriverError, Measured, rawload, rdload
from bench.servers import Server
from bench.setting import Setting
from bench.topics import kept_topic, listed, new_topic

Measure = Callable[[Setting], Measured]
_CONNECTIONS, _SLICE_S = 50, 1.0
_LOOK_S, _IDLE_SHARE, _SETTLED_S_MAX = 0.2, 0.05, 10.0
_MANY = 512
"""From so many partitions on, a window would be over before each of them was written to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    name: str
    title: str
    measure: Measure
    extra_s: float = 1.0
    """How long it takes beyond its window and its warm-up, more or less: for the estimate before a run."""
    lends: bool = False
    """Its warm-up writes more than there is warm memory for: it says itself when its window is (`Setting.lent`)."""


def write_to_each(topic: str, leaders: Sequence[int]) -> None:
    """A record or more to each partition, so that what the first one costs is not measured.

    Connections begin all over the partitions, and each walks on to where the next one began. All in one run: the next
    would begin where this one did, and on a slow disk never come to the rest.
    """
    written, seconds = 0, _SLICE_S
    while written < 2 * len(leaders):  # some are quicker than others
        done = rawload(
            leaders=listed(leaders),
            topic=topic,
            partitions=len(leaders),
            connections=_CONNECTIONS,
            record_bytes=50,
            warmup=0,
            seconds=seconds,
        )
        if not done["requests"]:
            raise DriverError(f"nothing was written to {topic} in {seconds:g} s")
        written, seconds = done["requests"], 2 * seconds


def _settle(server: Server) -> None:
    """Until what was written is on the disk, and the server has come to rest: what it still does for its writers
    would be counted as what its readers cost.
    """
    os.sync()
    server.wait_until_idle(within_s=_SETTLED_S_MAX, share=_IDLE_SHARE, look_s=_LOOK_S)


def raw(name: str, *, partitions: int = 6, **options: object) -> Measure:
    """Requests on plain sockets; `options` are those of rawload."""

    def measure(at: Setting) -> Measured:
        is_first = name not in at.server.kept_topics
        topics = kept_topic if partitions >= _MANY else new_topic
        with topics(at.server, name, partitions) as (topic, leaders):
            if partitions >= _MANY and is_first:
                write_to_each(topic, leaders)
            return rawload(
                leaders=listed(leaders),
                pids=listed(at.server.pids),
                topic=topic,
                partitions=partitions,
                seconds=at.windows.seconds,
                warmup=at.windows.warmup_s,
                **options,
            )

    return measure


def rd(name: str, mode: str, *, partitions: int = 6, **options: object) -> Measure:
    """Records through librdkafka; `options` are those of rdload."""

    def measure(at: Setting) -> Measured:
        with new_topic(at.server, name, partitions) as (topic, _):
            return rdload(
                mode=mode,
                bootstrap=at.server.bootstrap,
                pids=listed(at.server.pids),
                topic=topic,
                partitions=partitions,
                seconds=at.windows.seconds,
                warmup=at.windows.warmup_s,
                **options,
            )

    return measure


def consume(
    name: str, *, record_bytes: int, records: int, partitions: int = 6, compression: str = "none", **options: object
) -> Measure:
    """A topic is filled and then read through librdkafka; `options` are those of rdload while it fills."""

    def measure(at: Setting) -> Measured:
        count = int(records * at.windows.data_scale)
        common: dict[str, object] = {"bootstrap": at.server.bootstrap, "pids": listed(at.server.pids), "count": count}
        common |= {"record_bytes": record_bytes, "partitions": partitions}
        with new_topic(at.server, name, partitions) as (topic, _):
            rdload(mode="fill", topic=topic, compression=compression, **common, **options)
            _settle(at.server)
            return rdload(mode="consume", topic=topic, **common)

    return measure
