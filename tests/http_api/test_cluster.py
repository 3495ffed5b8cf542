"""Three nodes: each answers for all of them, also when one is gone."""

import asyncio
import time
from pathlib import Path
from typing import Any

import httpx

from ottla.config import HttpConfig
from ottla.http.listener import HttpListener
from ottla.http.serving import serve_node
from tests.cluster_rig import ClusterRig, with_cluster

HTTP = HttpConfig(port=0, request_timeout_ms=3_000)


class Apis:
    """The HTTP APIs of a rig's nodes."""

    def __init__(self, rig: ClusterRig) -> None:
        self.listeners: dict[int, HttpListener] = {}
        self.clients: dict[int, httpx.AsyncClient] = {}
        for node_id, running in rig.nodes.items():
            listener = serve_node(running.node)
            assert listener is not None
            self.listeners[node_id] = listener
            self.clients[node_id] = httpx.AsyncClient(base_url=f"http://127.0.0.1:{listener.port}", timeout=60)

    async def close(self) -> None:
        for client in self.clients.values():
            await client.aclose()
        for listener in self.listeners.values():
            await listener.close()


def test_any_node_answers_for_the_whole_cluster(tmp_path: Path) -> None:
    async def scenario(rig: ClusterRig) -> None:
        apis = Apis(rig)
        try:
            await _everywhere(apis)
            await _without_one(rig, apis)
            await _without_a_controller(rig, apis)
        finally:
            await apis.close()

    with_cluster(scenario, 3, http=HTTP, data_dir=str(tmp_path))


async def _everywhere(apis: Apis) -> None:
    first, second, third = apis.clients.values()
    made = await first.post("/topics/c-all", json={"num_partitions": 3, "replication_factor": 1})
    assert made.status_code == 201, made.text
    pairs = {"num_partitions": 1, "replication_factor": 3, "configs": {"min.insync.replicas": "2"}}
    assert (await third.post("/topics/c-safe", json=pairs)).status_code == 201
    for client in apis.clients.values():
        for _ in range(100):
            if (await client.get("/topics/c-all")).status_code == 200:
                break
            await asyncio.sleep(0.05)
        body = [{"value": str(client.base_url), "partition": index} for index in range(3)]
        written = await client.post("/topics/c-all/produce", json=body)
        assert written.status_code == 200, written.text
    for client in apis.clients.values():
        for partition in range(3):
            read = (await client.get(f"/topics/c-all/partitions/{partition}/consume")).json()
            assert len(read["records"]) == 3, read
        status = (await client.get("/cluster/status")).json()
        assert len(status["brokers"]) == 3
        assert all(broker["held_bytes"] is not None for broker in status["brokers"])
        assert (await client.get("/health")).json()["ready"]
        assert "ottla_gossip_members" in (await client.get("/metrics")).text
    leaders = {partition["leader"] for partition in (await first.get("/topics/c-all")).json()["partitions"]}
    assert len(leaders) > 1, "this test needs partitions led by different nodes"

    asked = {"consumer_id": "web", "topics": ["c-all"]}
    assert len((await second.post("/consumer-groups/c/register", json=asked)).json()["assignment"]) == 3
    seen: list[Any] = []
    for client in (second, third, first):  # a member goes from node to node
        polled = await client.post("/consumer-groups/c/poll", json={"consumer_id": "web", "wait_ms": 5_000})
        assert polled.status_code == 200, polled.text
        seen = polled.json()["records"]
        assert len(seen) == 9
    described = (await third.get("/consumer-groups/c")).json()
    assert [member["consumer_id"] for member in described["members"]] == ["web"]


async def _without_one(rig: ClusterRig, apis: Apis) -> None:
    """The leader of a partition dies: a request through another node waits for the next one, and nothing is lost."""
    victim = rig.partition("c-safe").leader
    await apis.listeners.pop(victim).close()
    await apis.clients.pop(victim).aclose()
    client = next(iter(apis.clients.values()))
    assert (await client.post("/topics/c-safe/produce", json={"value": "before"})).status_code == 200
    await rig.kill(victim)
    acknowledged = ["before"]
    for number in range(100):
        written = await client.post("/topics/c-safe/produce", json={"value": str(number)})
        assert written.status_code in (200, 503), written.text
        if written.status_code == 200:
            acknowledged.append(str(number))
        if len(acknowledged) >= 5:
            break
    read = (await client.get("/topics/c-safe/partitions/0/consume", params={"limit": 1000})).json()
    values = [record["value"] for record in read["records"]]
    assert [value for value in values if value in acknowledged] == acknowledged


async def _without_a_controller(rig: ClusterRig, apis: Apis) -> None:
    """One of three nodes can't change anything, and says so in time."""
    victim = next(iter(apis.clients))
    await apis.listeners.pop(victim).close()
    await apis.clients.pop(victim).aclose()
    await rig.kill(victim)
    [client] = apis.clients.values()
    while (health := await client.get("/health")).status_code != 503:
        await asyncio.sleep(0.1)
    assert health.json()["live"]
    assert health.json()["why"]
    started = time.monotonic()
    refused = await client.post("/topics/c-new", json={"num_partitions": 1})
    assert refused.status_code == 503, refused.text
    assert time.monotonic() - started < 10
    written = await client.post("/topics/c-safe/produce", json={"value": "not safe enough"})
    assert written.status_code == 503, written.text


def test_a_node_that_is_leaving_says_so_and_loses_nothing(tmp_path: Path) -> None:
    async def scenario(rig: ClusterRig) -> None:
        apis = Apis(rig)
        try:
            await _leaving(rig, apis)
        finally:
            await apis.close()

    with_cluster(scenario, 3, http=HTTP, data_dir=str(tmp_path))


async def _leaving(rig: ClusterRig, apis: Apis) -> None:
    await rig.create("c-left", min_insync_replicas="2")
    victim = rig.partition("c-left").leader
    client = apis.clients[victim]
    assert (await client.post("/topics/c-left/produce", json={"value": "before"})).status_code == 200
    leaving = asyncio.create_task(rig.nodes.pop(victim).node.stop())
    acknowledged = ["before"]
    reasons: list[str] = []
    for number in range(500):
        written = await client.post("/topics/c-left/produce", json={"value": str(number)})
        health = await client.get("/health")
        reasons += [] if health.status_code == 200 else health.json()["why"]
        assert written.status_code in (200, 503), written.text
        if written.status_code == 200:
            acknowledged.append(str(number))
        else:
            assert written.json()["error"]["message"]
        if leaving.done():
            break
    await leaving
    assert any("leaving" in reason for reason in reasons), reasons
    other = next(each for node_id, each in apis.clients.items() if node_id != victim)
    read = (await other.get("/topics/c-left/partitions/0/consume", params={"limit": 1000})).json()
    values = [record["value"] for record in read["records"]]
    assert [value for value in values if value in acknowledged] == acknowledged
