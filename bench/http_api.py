"""The HTTP API of a node under load, and what it costs those who do not use it.

Apache Kafka has none: these rows are for Ottla alone. Rates are messages a second and CPU is per message, whatever a
request carries.
"""

import json
import statistics
import time
import urllib.error
import urllib.request
from collections.abc import Callable

from bench.native import Measured, httpload, rawload
from bench.servers import Ottla, Server
from bench.setting import Setting
from bench.topics import listed, new_topic

PARTITIONS = 6
VALUE_BYTES = 50
READ_LIMIT = 1_000
READERS = 8
FILL_S = 2.0
ENOUGH = 3 * READ_LIMIT
TURNS = 5
PROBES = ("/health", "/metrics")
GENERAL_ROUTES = ("/topics", "/openapi.json")
ANSWER_WITHIN_S = 30


class NoHttpError(OSError):
    """This server has no HTTP API."""


def _http_port(server: Server) -> int:
    if not isinstance(server, Ottla):
        raise NoHttpError(f"{server.name} has no HTTP API")
    return server.http_port


def _get(server: Server, path: str) -> bytes:
    """Waits for the port: it is opened after the Kafka port."""
    give_up = time.monotonic() + ANSWER_WITHIN_S
    while True:
        try:
            url = f"http://127.0.0.1:{_http_port(server)}{path}"
            with urllib.request.urlopen(url, timeout=ANSWER_WITHIN_S) as answer:
                content: bytes = answer.read()
                return content
        except urllib.error.URLError as error:
            if not isinstance(error.reason, ConnectionRefusedError) or time.monotonic() > give_up:
                raise
            time.sleep(0.01)


def produce(*, connections: int, batch: int = 1) -> Callable[[Setting], Measured]:
    """Messages without a key, durable, `batch` in a request: one by itself, more as NDJSON."""

    def measure(at: Setting) -> Measured:
        with new_topic(at.server, "http", PARTITIONS) as (topic, _):
            return httpload(
                port=_http_port(at.server),
                pids=listed(at.server.pids),
                topic=topic,
                connections=connections,
                record_bytes=VALUE_BYTES,
                batch=batch,
                seconds=at.windows.seconds,
                warmup=at.windows.warmup_s,
            )

    return measure


def consume(*, records_per_batch: int) -> Callable[[Setting], Measured]:
    """What lies in batches of that many records is read a thousand at a time."""

    def measure(at: Setting) -> Measured:
        with new_topic(at.server, "http", PARTITIONS) as (topic, _):
            return httpload(
                mode="consume",
                port=_http_port(at.server),
                pids=listed(at.server.pids),
                topic=topic,
                connections=READERS,
                limit=READ_LIMIT,
                partitions=PARTITIONS,
                records=_filled(at.server, topic, records_per_batch),
                seconds=at.windows.seconds,
                warmup=at.windows.warmup_s,
            )

    return measure


def _filled(server: Server, topic: str, records_per_batch: int) -> int:
    """Writes until there is enough to read; how many messages each partition has at least."""
    while True:
        rawload(
            port=server.port,
            topic=topic,
            partitions=PARTITIONS,
            connections=64,
            records=records_per_batch,
            record_bytes=VALUE_BYTES,
            seconds=FILL_S,
            warmup=0,
        )
        paths = (f"/topics/{topic}/partitions/{index}" for index in range(PARTITIONS))
        least: int = min(json.loads(_get(server, path))["high_watermark"] for path in paths)
        if least >= ENOUGH:
            return least


def memory(at: Setting) -> Measured:
    """What the API takes while it is only written to and probed, and once every part of it was asked for something."""
    spare = at.spare()
    spare.start()
    try:
        before_mb = spare.rss_mb()
        for path in PROBES:
            _get(spare, path)
        with new_topic(spare, "http", PARTITIONS) as (topic, _):
            httpload(port=_http_port(spare), topic=topic, connections=10, seconds=0.5, warmup=0)
        hot_mb = spare.rss_mb() - before_mb
        for path in GENERAL_ROUTES:
            _get(spare, path)
        return {
            "broker_rss_mb": spare.rss_mb(),
            "http_hot_mb": hot_mb,
            "http_mb": spare.rss_mb() - before_mb,
        }
    finally:
        spare.stop()


def beside(at: Setting) -> Measured:
    """Kafka requests before anybody asked by HTTP, and then with the API loaded and idle, in turns on two nodes."""
    without, loaded = at.spare(), at.spare()
    loaded.directory = loaded.directory.with_name(f"{loaded.directory.name}-loaded")
    p99_ms: dict[bool, list[float]] = {False: [], True: []}
    cpu_us: dict[bool, list[float]] = {False: [], True: []}
    try:
        for server in (without, loaded):
            server.start()
        for path in (*PROBES, *GENERAL_ROUTES):
            _get(loaded, path)
        for _ in range(TURNS):
            for is_loaded, server in ((False, without), (True, loaded)):
                found = _kafka_requests(server, at.windows.seconds / TURNS)
                p99_ms[is_loaded].append(found["p99_ms"])
                cpu_us[is_loaded].append(found["broker_cpu_us"])
    finally:
        for server in (without, loaded):
            server.stop()
    return {
        "p99_ms": statistics.median(p99_ms[True]),
        "p99_without_ms": statistics.median(p99_ms[False]),
        "p99_growth": statistics.median(p99_ms[True]) / statistics.median(p99_ms[False]),
        "broker_cpu_us": statistics.median(cpu_us[True]),
        "broker_cpu_without_us": statistics.median(cpu_us[False]),
    }


def _kafka_requests(server: Server, seconds: float) -> Measured:
    with new_topic(server, "http", PARTITIONS) as (topic, _):
        return rawload(
            port=server.port,
            pids=listed(server.pids),
            topic=topic,
            partitions=PARTITIONS,
            connections=50,
            record_bytes=VALUE_BYTES,
            seconds=seconds,
            warmup=0.3,
        )
