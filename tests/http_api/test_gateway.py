"""The same API in front of a cluster, over the wire only."""

import asyncio
import threading
from collections.abc import Iterator

import httpx
import pytest
import uvloop

from ottla.config import HttpConfig
from ottla.http.gateway import Gateway
from tests.http_api.rig import TIMEOUT_S, HttpNode, error_of


class Running:
    """A gateway on a thread of its own."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._bootstrap = [("127.0.0.1", 1), (host, int(port))]  # nobody is at the first
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        assert self._ready.wait(TIMEOUT_S)
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=TIMEOUT_S)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        gateway = Gateway(self._bootstrap, HttpConfig(request_timeout_ms=5_000))
        gateway.open(0)
        self.port = gateway.listener.port
        self._ready.set()
        await self._stop.wait()
        await gateway.close()

    def stop(self) -> None:
        self.client.close()
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(TIMEOUT_S)


@pytest.fixture
def gateway(node: HttpNode) -> Iterator[httpx.Client]:
    running = Running(node.bootstrap)
    yield running.client
    running.stop()


def test_everything_goes_through_a_gateway_too(node: HttpNode, gateway: httpx.Client) -> None:
    assert gateway.get("/health").json() == {"live": True, "ready": True, "why": [], "node_id": None}
    assert gateway.post("/topics/w-all", json={"num_partitions": 2}).status_code == 201
    written = gateway.post(
        "/topics/w-all/produce", json=[{"value": "a", "partition": 0}, {"value": "b", "partition": 1}]
    )
    assert written.status_code == 200, written.text
    read = gateway.get("/topics/w-all/partitions/1/consume").json()
    assert [record["value"] for record in read["records"]] == ["b"]
    assert gateway.get("/topics/w-all/partitions/0").json()["segments"] is None

    body = {"consumer_id": "far", "topics": ["w-all"]}
    assert len(gateway.post("/consumer-groups/w/register", json=body).json()["assignment"]) == 2
    polled = gateway.post("/consumer-groups/w/poll", json={"consumer_id": "far", "wait_ms": 5_000}).json()
    assert {record["value"] for record in polled["records"]} == {"a", "b"}
    place = "/consumer-groups/w/topics/w-all/partitions/0/commit"
    assert gateway.post(place, json={"offset": 1}).status_code == 200
    assert "w" in [group["group"] for group in gateway.get("/consumer-groups").json()["groups"]]
    assert gateway.get("/cluster/status").json()["controller"] == 1
    assert "ottla_http_messages_in_total 2" in gateway.get("/metrics").text
    assert gateway.delete("/topics/w-all").status_code == 204
    assert error_of(gateway.get("/topics/w-all"))[0] == 404


def test_a_member_can_go_on_elsewhere(node: HttpNode, gateway: httpx.Client) -> None:
    """One that registered with a node is taken over by the gateway, and back, and reads on where it has committed."""
    node.create("w-move")
    node.produce("w-move", {"value": "a"}, {"value": "b"})
    node.client.post("/consumer-groups/move/register", json={"consumer_id": "c", "topics": ["w-move"]})
    body = {"consumer_id": "c", "wait_ms": 5_000, "limit": 1}
    [first] = node.client.post("/consumer-groups/move/poll", json=body).json()["records"]
    place = "/consumer-groups/move/topics/w-move/partitions/0/commit"
    assert node.client.post(place, json={"offset": first["offset"] + 1}).status_code == 200

    [second] = gateway.post("/consumer-groups/move/poll", json=body).json()["records"]
    assert (first["value"], second["value"]) == ("a", "b")
    [again] = node.client.post("/consumer-groups/move/poll", json=body).json()["records"]
    assert again["value"] == "b", "it was not committed"


def test_without_a_cluster_it_is_503_in_time() -> None:
    running = Running("127.0.0.1:9")
    try:
        health = running.client.get("/health")
        assert (health.status_code, health.json()["ready"]) == (503, False)
        assert error_of(running.client.post("/topics/t/produce", json={"value": 1}))[0] == 503
        assert error_of(running.client.get("/topics"))[0] == 503
    finally:
        running.stop()
