"""What metrics cost a broker at full load: `python -m bench.scrapes`.

Two things are paid for: counting, with every request, and scrapes. Counting is measured by running what a request does
for it, in CPU time. Scrapes are of a node with 1,000 partitions that are all used: idle for their CPU, and under full
load for how long the answer takes. Both are set against what the same node takes for a request at full load, of 200
producers on six partitions, where requests are cheapest.
"""

import statistics
import subprocess
import sys
import tempfile
import threading
import time
import timeit
import urllib.request
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from bench.native import rawload
from bench.servers import Ottla
from bench.topics import listed, new_topic
from bench.wire import WireClient
from ottla.runtime.dispatch import RouteFigures

PARTITIONS = 1_000
BUSY_PARTITIONS = 6
CONNECTIONS = 200
SCRAPES = 40
PINGS = 2_000
SCRAPE_EVERY_S = 15
"""As deploy/prometheus has it."""
WINDOW_S = 4.0
REPEATS = 9
CALLS = 100_000


def main() -> int:
    with tempfile.TemporaryDirectory() as directory:
        server = Ottla(Path(directory) / "node", "commit")
        server.start()
        try:
            figures = measured(server)
        finally:
            server.stop()
    for name, figure in figures.items():
        print(f"{name:<52} {figure:10.3f}")
    share = figures["of broker CPU at full load, percent"]
    print(f"metrics take {share:.2f} % of broker CPU; the goal is less than 2 %")
    return 0 if share < 2 else 1


def measured(server: Ottla) -> dict[str, float]:
    with new_topic(server, "many", PARTITIONS) as many, new_topic(server, "few", BUSY_PARTITIONS) as (topic, leaders):
        load(server, *many, seconds=2.0)  # now all of them are used
        scrape(server)
        scrape_cpu_ms, scrape_ms = idle_scrapes(server)
        alone_ms, beside_ms = waits(server, scrapes=0), waits(server, scrapes=SCRAPES)
        request, loaded_ms = scrapes_under_load(server, topic, leaders)
    counting_us = counting_cost_us()
    scrapes_share = scrape_cpu_ms / 1000 / SCRAPE_EVERY_S
    used = request["broker_cpu_us"] * request["rate"] / 1_000_000
    return {
        "requests per second": request["rate"],
        "broker CPU per request, us": request["broker_cpu_us"],
        "counting, us per request": counting_us,
        "counting, percent of a request": 100 * counting_us / request["broker_cpu_us"],
        "a scrape of 1,000 partitions, ms of CPU": scrape_cpu_ms,
        "a scrape, ms until the answer, idle, median": statistics.median(scrape_ms),
        "a Kafka request on the idle node, ms, most of 2,000": max(alone_ms),
        "the same beside scrapes: a stall shows here": max(beside_ms),
        "a scrape, ms until the answer, under load, median": statistics.median(loaded_ms),
        "a scrape, ms until the answer, under load, most": max(loaded_ms),
        "scrapes every 15 s, percent of broker CPU": 100 * scrapes_share / used,
        "of broker CPU at full load, percent": 100 * (counting_us / request["broker_cpu_us"] + scrapes_share / used),
    }


def load(server: Ottla, topic: str, leaders: list[int], seconds: float) -> dict[str, float]:
    return rawload(
        leaders=listed(leaders),
        pids=listed(server.pids),
        topic=topic,
        partitions=len(leaders),
        connections=CONNECTIONS,
        record_bytes=50,
        seconds=seconds,
        warmup=0.5,
    )


def scrape(server: Ottla) -> float:
    """How long it took, in ms."""
    started = perf_counter()
    with urllib.request.urlopen(f"http://127.0.0.1:{server.http_port}/metrics", timeout=60) as answer:
        lines = answer.read().count(b"\n")
    took_ms = (perf_counter() - started) * 1000
    if lines < PARTITIONS:
        raise RuntimeError(f"{lines} lines are not the metrics of {PARTITIONS} partitions")
    return took_ms


def idle_scrapes(server: Ottla) -> tuple[float, list[float]]:
    before_s = server.cpu_s()
    took_ms = [scrape(server) for _ in range(SCRAPES)]
    return (server.cpu_s() - before_s) * 1000 / SCRAPES, took_ms


def waits(server: Ottla, *, scrapes: int) -> list[float]:
    """How long one Kafka request after the other waits, in ms, while another process scrapes."""
    url = f"http://127.0.0.1:{server.http_port}/metrics"
    command = ["curl", "--silent", *([url] * scrapes)]
    scraping = subprocess.Popen(command, stdout=subprocess.DEVNULL) if scrapes else None
    took_ms: list[float] = []
    with WireClient(server.port) as client:
        while len(took_ms) < PINGS if scraping is None else scraping.poll() is None:
            started = perf_counter()
            client.broker_count()
            took_ms.append((perf_counter() - started) * 1000)
    return took_ms


def scrapes_under_load(server: Ottla, topic: str, leaders: list[int]) -> tuple[dict[str, float], list[float]]:
    """What a request takes without scrapes; then scrapes beside the same load."""
    request = load(server, topic, leaders, WINDOW_S)
    beside = threading.Thread(target=load, args=(server, topic, leaders, WINDOW_S))
    beside.start()
    time.sleep(1)  # until it is in full swing
    took_ms = []
    while beside.is_alive():
        took_ms.append(scrape(server))
        time.sleep(0.1)
    beside.join()
    return request, took_ms


def counting_cost_us() -> float:
    """What a connection does for figures, against a function that does nothing."""
    figures = RouteFigures()

    def count() -> None:
        started = perf_counter()
        figures.latency.record((perf_counter() - started) * 1e6 + 700)

    def nothing() -> None:
        pass

    def cost_us(function: Callable[[], None]) -> float:
        runs = timeit.repeat(function, number=CALLS, repeat=REPEATS, timer=time.process_time)
        return min(runs) / CALLS * 1_000_000

    return cost_us(count) - cost_us(nothing)


if __name__ == "__main__":
    sys.exit(main())
