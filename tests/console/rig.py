"""A cluster with racks and something to look at, and the console in front of it, each as users run it."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Self
from urllib.request import urlopen

from confluent_kafka import Consumer as RawConsumer
from confluent_kafka import KafkaException
from confluent_kafka import Producer as RawProducer

from ottla.client.admin import Admin
from ottla.client.errors import ClientError, TopicExistsError
from ottla.client.message import Message
from ottla.client.producer import Producer
from ottla.stream.processor import process
from tests.interop.node_process import NodeProcess
from tests.ports import free_port, free_ports

WITHIN_S = 60.0
LOADED_WITHIN_S = 180.0
PAYMENTS = 9
LETTERS = 6
"""Those at even offsets of three partitions; each is tried twice."""
RACKS = ("north", "south", "west")
TOPICS: tuple[tuple[str, int, dict[str, str]], ...] = (
    ("orders", 6, {"retention.ms": "604800000"}),
    ("payments", 3, {}),
    ("sensor.readings", 12, {"compression.type": "zstd"}),
    ("customers", 3, {"cleanup.policy": "compact"}),
    ("ledger", 1, {}),
    ("payments.settle.dlq", 1, {}),
)
CITIES = ("Prague", "Siřem", "Berlin", "Merano", "Vienna")


def until(condition: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + WITHIN_S
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < deadline, f"never: {what}"
        pause.wait(0.05)


class RackedCluster:
    """Three nodes, each in a rack of its own."""

    def __init__(self, directory: Path) -> None:
        first = free_ports(len(RACKS))
        seeds = ",".join(f"127.0.0.1:{first + at}" for at in range(len(RACKS)))
        self.nodes = [
            NodeProcess(
                directory / f"node-{at + 1}",
                *("--node-id", str(at + 1), "--cluster-port", str(first + at), "--seeds", seeds, "--no-http"),
                *("--rack", rack, "--set", "default_replication_factor=3", "--set", "log.min_insync_replicas=2"),
            )
            for at, rack in enumerate(RACKS)
        ]

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.nodes)

    def __enter__(self) -> Self:
        for node in self.nodes:
            node.launch()
        try:
            with Admin(bootstrap_servers=self.bootstrap) as admin:
                until(lambda: _brokers(admin) == len(RACKS), "three brokers")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes:
            node.kill()


def _brokers(admin: Admin) -> int:
    try:
        return len(admin.describe_cluster().brokers)
    except Exception:
        return 0


class ConsoleProcess:
    """`ottla console`, or the gateway, which has one too."""

    def __init__(self, directory: Path, bootstrap: str, *command: str, path: str = "/") -> None:
        self._path = path
        self._log = directory / f"console-{free_port()}.log"
        self._command = [str(Path(sys.executable).with_name("ottla")), *command, "--bootstrap", bootstrap]
        self.url = ""

    def __enter__(self) -> Self:
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, env=dict(os.environ))
        try:
            until(self._is_ready, "the console is there")
            urlopen(self.url + self._path, timeout=LOADED_WITHIN_S).close()  # the first request loads NiceGUI
        except BaseException:
            self.__exit__()
            raise
        return self

    def _is_ready(self) -> bool:
        assert self._process.poll() is None, self.log()
        found = re.search(r"is at (http://[\d.:]+)", self.log())
        self.url = found[1] if found else ""
        return bool(found)

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(WITHIN_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


class Story:
    """What goes on in the cluster: orders that a group reads too slowly, one that nobody reads, letters, and more."""

    ORDERS = 600

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._open: list[Any] = []
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def tell(self) -> None:
        for topic in TOPICS:
            until(partial(self._made, *topic), topic[0])
        self._write()
        self._fail_payments()
        self._commit("billing", {("orders", at): 20 + 5 * at for at in range(6)})
        self._commit("search-index", {("orders", at): self.ORDERS // 6 for at in range(6)})
        self._leave_open()

    def _made(self, name: str, partitions: int, config: dict[str, str]) -> bool:
        """On a busy machine the controller may change meanwhile."""
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            try:
                admin.create_topic(name, partitions=partitions, config=config)
            except TopicExistsError:
                return True
            except ClientError:
                return False
        return True

    def _write(self) -> None:
        with Producer(bootstrap_servers=self.bootstrap) as producer:
            for number in range(self.ORDERS):
                producer.send(
                    "orders", order(number), f"user-{number % 40}", [("trace", f"{number:04x}".encode())], number % 6
                )
            for number in range(400):
                producer.send(
                    "sensor.readings", {"sensor": number % 24, "celsius": 20 + number % 7}, f"sensor-{number % 24}"
                )
            for number in range(PAYMENTS):
                producer.send(
                    "payments", {"payment": number, "cents": 100 * number}, f"user-{number}", partition=number % 3
                )
            for name in ("Ottla", "Franz", "Josef", "Milena"):
                producer.send("customers", {"name": name, "city": CITIES[len(name) % 5]}, name.lower())

    def _fail_payments(self) -> None:
        """A stream that can't process some of them; they become dead letters."""

        done = threading.Event()
        tried: dict[tuple[int, int], int] = {}

        def settle(message: Message) -> None:
            place = (message.partition, message.offset)
            tried[place] = tried.get(place, 0) + 1
            if len(tried) == PAYMENTS and sum(tried.values()) >= PAYMENTS + LETTERS:
                done.set()
            if message.offset % 2 == 0:
                raise ValueError(f"no account for payment {message.partition}/{message.offset}")

        process(
            "payments",
            None,
            settle,
            group="settle",
            bootstrap_servers=self.bootstrap,
            attempts=2,
            backoff_ms=1,
            dead_letter_topic="payments.settle.dlq",
            idle_ms=30_000,
            stop=done,
        )

    def _commit(self, group: str, offsets: dict[tuple[str, int], int]) -> None:
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            until(lambda: committed(admin, group, offsets), f"{group} has a coordinator")

    def _leave_open(self) -> None:
        raw = RawProducer(
            {
                "bootstrap.servers": self.bootstrap,
                "transactional.id": "ledger-writer-1",
                "transaction.timeout.ms": 900_000,
            }
        )
        raw.init_transactions(WITHIN_S)
        raw.begin_transaction()
        raw.produce("ledger", b"not yet visible", partition=0)
        raw.flush(WITHIN_S)
        self._open.append(raw)

    def keep_writing(self) -> None:
        """Orders, faster than the members of `shipping` read; one of them is very slow."""
        self._run(self._orders)
        self._run(lambda: self._read("shipping", "shipping-1", 0.0))
        self._run(lambda: self._read("shipping", "shipping-2", 0.25))

    def _run(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _orders(self) -> None:
        with Producer(bootstrap_servers=self.bootstrap) as producer:
            number = self.ORDERS
            while not self._stop.wait(0.05):
                for _ in range(4):
                    number += 1
                    producer.send("orders", order(number), f"user-{number % 40}", partition=number % 6)

    def _read(self, group: str, name: str, pause_s: float) -> None:
        consumer = RawConsumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": group,
                "client.id": name,
                "auto.offset.reset": "latest",
                "auto.commit.interval.ms": 500,
                "session.timeout.ms": 45_000,
            }
        )
        consumer.subscribe(["orders"])
        try:
            while not self._stop.is_set():
                consumer.poll(0.2)
                self._stop.wait(pause_s)
        finally:
            consumer.close()

    def end(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(WITHIN_S)
        for raw in self._open:
            with suppress(KafkaException):  # on a busy machine it may have been ended by its time-out
                raw.abort_transaction(WITHIN_S)


def committed(admin: Admin, group: str, offsets: dict[tuple[str, int], int]) -> bool:
    """A coordinator may still be loading."""
    try:
        admin.set_group_offsets(group, offsets)
    except ClientError:
        return False
    return True


def order(number: int) -> dict[str, Any]:
    return {
        "order": number,
        "city": CITIES[number % 5],
        "cents": 990 + 130 * (number % 17),
        "lines": [{"item": f"B-{number % 13:03}", "count": 1 + number % 3}],
        "express": number % 5 == 0,
    }
