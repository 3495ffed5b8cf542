"""A real node under load by HTTP, killed and stopped: what was answered with 200 is there, where it was said to be."""

import http.client
import json
import random
import threading
import time
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from tests.interop.node_process import NodeProcess
from tests.interop.waiting import eventually
from tests.ports import free_port

TOPIC = "killed"
PARTITIONS = 3
WRITERS = 6
KILLS = 2
ANSWER_WITHIN_S = 20.0


class Writers:
    """Clients that write single messages and small lists, and remember what was acknowledged."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.acknowledged: dict[tuple[int, int], str] = {}
        """Value by partition and offset."""
        self.statuses: set[int] = set()
        self.slowest_s = 0.0
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(number,)) for number in range(WRITERS)]

    def __enter__(self) -> "Writers":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _write(self, writer: int) -> None:
        number = 0
        while not self._stop.is_set():
            try:
                with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_WITHIN_S)) as connection:
                    while not self._stop.is_set():
                        number += 1
                        self._write_one(connection, f"{writer}-{number}", number % 4)
            except (OSError, http.client.HTTPException):
                self._stop.wait(0.01)  # it was killed, and is not back yet

    def _write_one(self, connection: http.client.HTTPConnection, name: str, more: int) -> None:
        partition = sum(name.encode()) % PARTITIONS
        messages = [{"value": f"{name}-{index}", "partition": partition} for index in range(1 + more)]
        started = time.monotonic()
        connection.request("POST", f"/topics/{TOPIC}/produce", json.dumps(messages if more else messages[0]))
        answer = connection.getresponse()
        told = json.loads(answer.read())
        self.slowest_s = max(self.slowest_s, time.monotonic() - started)
        self.statuses.add(answer.status)
        if answer.status == 200:
            first = told["partitions"][0]["offset"] if more else told["offset"]
            for index, message in enumerate(messages):
                self.acknowledged[partition, first + index] = str(message["value"])


def stored(client: httpx.Client) -> dict[tuple[int, int], str]:
    found: dict[tuple[int, int], str] = {}
    for partition in range(PARTITIONS):
        at = 0
        while True:
            read = client.get(f"/topics/{TOPIC}/partitions/{partition}/consume", params={"offset": at, "limit": 10_000})
            records = read.json()["records"]
            found |= {(partition, record["offset"]): record["value"] for record in records}
            at = read.json()["next_offset"]
            if not records:
                break
    return found


def _is_ready(client: httpx.Client) -> bool:
    try:
        return client.get("/health").status_code == 200
    except httpx.TransportError:
        return False


@pytest.mark.parametrize("ends", ["killed", "stopped"])
def test_nothing_that_was_answered_with_200_is_lost(tmp_path: Path, ends: str) -> None:
    generator = random.Random(7)
    port = free_port()
    with (
        closing(NodeProcess(tmp_path, "--http-port", str(port))) as node,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=ANSWER_WITHIN_S) as client,
    ):
        node.start()
        eventually(lambda: _is_ready(client))
        assert client.post(f"/topics/{TOPIC}", json={"num_partitions": PARTITIONS}).status_code == 201
        with Writers(port) as writers:
            for _ in range(KILLS):
                enough = len(writers.acknowledged) + generator.randrange(50, 800)
                eventually(lambda enough=enough: len(writers.acknowledged) >= enough)  # type: ignore[misc]
                if ends == "killed":
                    node.kill()
                else:
                    assert node.stop() == 0
                node.start()
        eventually(lambda: _is_ready(client))
        found = stored(client)

    lost = {place: value for place, value in writers.acknowledged.items() if found.get(place) != value}
    assert lost == {}
    assert len(set(found.values())) == len(found)
    assert writers.statuses <= {200, 503}
    assert writers.slowest_s < ANSWER_WITHIN_S
