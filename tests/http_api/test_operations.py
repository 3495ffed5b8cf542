"""The cluster, health, metrics, and the description of it all."""

import re

from tests.http_api.rig import HttpNode, error_of

ROUTES = {
    "/topics": {"get"},
    "/topics/{topic}": {"get", "post", "delete"},
    "/topics/{topic}/produce": {"post"},
    "/topics/{topic}/partitions/{partition}": {"get"},
    "/topics/{topic}/partitions/{partition}/consume": {"get"},
    "/topics/{topic}/stream": {"get"},
    "/consumer-groups": {"get"},
    "/consumer-groups/{group}": {"get"},
    "/consumer-groups/{group}/register": {"post"},
    "/consumer-groups/{group}/heartbeat": {"post"},
    "/consumer-groups/{group}/poll": {"post"},
    "/consumer-groups/{group}/leave": {"post"},
    "/consumer-groups/{group}/topics/{topic}/partitions/{partition}/commit": {"post"},
    "/cluster/status": {"get"},
    "/health": {"get"},
    "/metrics": {"get"},
    "/admin/assignment-plan": {"get"},
    "/admin/rebalance": {"post"},
    "/admin/brokers/{broker}/decommission": {"post"},
}


def test_these_are_the_routes(node: HttpNode) -> None:
    paths = node.client.get("/openapi.json").json()["paths"]
    assert {path: set(methods) for path, methods in paths.items()} == ROUTES


def test_the_page_loads_nothing_from_elsewhere(node: HttpNode) -> None:
    page = node.client.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert "/topics/{topic}/produce" in page.text
    assert not re.search(r"<script|<link|https?://", page.text)


def test_the_status_of_one_node(node: HttpNode) -> None:
    node.create("o-status")
    status = node.client.get("/cluster/status").json()
    assert (status["controller"], status["offline"], status["under_replicated"]) == (1, 0, 0)
    assert status["quorum"]["voters"] == [1]
    [broker] = status["brokers"]
    assert broker["state"] == "in service"
    assert broker["leads"] == broker["replicas"] == status["partitions"] >= 1


def test_a_node_alone_has_nothing_to_move_and_can_not_leave(node: HttpNode) -> None:
    assert node.client.get("/admin/assignment-plan").json() == {"moves": [], "blocked": []}
    started = node.client.post("/admin/rebalance")
    assert (started.status_code, started.json()["started"]) == (202, [])
    assert error_of(node.client.post("/admin/brokers/1/decommission"))[:2] == (409, "only_broker")
    assert error_of(node.client.post("/admin/brokers/7/decommission"))[:2] == (404, "unknown_broker")


def test_a_node_in_service_is_live_and_ready(node: HttpNode) -> None:
    assert node.client.get("/health").json() == {"live": True, "ready": True, "why": [], "node_id": 1}


def test_what_is_not_there_is_404_and_the_wrong_method_405(node: HttpNode) -> None:
    assert error_of(node.client.get("/nowhere"))[:2] == (404, "not_found")
    assert error_of(node.client.get("/topics/t/partitions/0/consume/x"))[:2] == (404, "not_found")
    assert error_of(node.client.delete("/topics"))[:2] == (405, "method_not_allowed")
