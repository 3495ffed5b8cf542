"""Live tails."""

import json
from typing import Any

import pytest
from websockets.sync.client import connect

from ottla.http.errors import HttpError
from ottla.http.filters import read_filters
from ottla.protocol.record import Record
from tests.http_api.rig import HttpNode, error_of


def events(node: HttpNode, topic: str, wanted: int, then: Any, **query: Any) -> list[Any]:
    """What is told while `then` is done."""
    found: list[Any] = []
    with node.client.stream("GET", f"/topics/{topic}/stream", params=query) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = answer.iter_lines()
        assert next(lines).startswith(":")
        then()
        for line in lines:
            if line.startswith("data: "):
                found.append(json.loads(line.removeprefix("data: ")))
                if len(found) == wanted:
                    break
    return found


def test_what_is_written_is_told_as_it_comes(node: HttpNode) -> None:
    node.create("s-one", partitions=3)
    node.produce("s-one", {"value": "before"})
    told = events(
        node, "s-one", 3, lambda: node.produce("s-one", *({"value": str(n), "partition": n} for n in range(3)))
    )
    assert {(each["partition"], each["value"]) for each in told} == {(0, "0"), (1, "1"), (2, "2")}


def test_a_tail_can_begin_at_the_beginning_and_shows_what_passes_its_filters(node: HttpNode) -> None:
    node.create("s-filter")
    node.produce(
        "s-filter",
        {"key": "a", "value": {"n": 1}, "headers": {"h": "x"}},
        {"key": "a", "value": {"n": 2}, "headers": {"h": "y"}},
        {"key": "b", "value": {"n": 2}, "headers": {"h": "x"}},
        {"key": "a", "value": "not JSON", "headers": {"h": "x"}},
    )
    query = {"offset": "earliest", "key": "a", "header": "h:y", "json": "$.n:2", "encoding": "json"}
    [told] = events(node, "s-filter", 1, lambda: None, **query)
    assert (told["key"], told["value"], told["offset"]) == ("a", {"n": 2}, 1)


def test_the_same_by_websocket(node: HttpNode) -> None:
    node.create("s-socket")
    node.produce("s-socket", {"value": "first"})
    with connect(f"{node.url.replace('http', 'ws')}/topics/s-socket/stream?offset=earliest") as socket:
        assert json.loads(socket.recv(timeout=20))["value"] == "first"
        node.produce("s-socket", {"value": "second"})
        assert json.loads(socket.recv(timeout=20))["value"] == "second"


def test_what_can_not_be_followed_is_told(node: HttpNode) -> None:
    node.create("s-wrong")
    assert error_of(node.client.get("/topics/s-nothing/stream"))[:2] == (404, "unknown_topic_or_partition")
    assert error_of(node.client.get("/topics/s-wrong/stream", params={"json": "a.b"}))[:2] == (400, "bad_request")
    with connect(f"{node.url.replace('http', 'ws')}/topics/s-nothing/stream") as socket:
        assert json.loads(socket.recv(timeout=20))["error"]["code"] == "unknown_topic_or_partition"


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("$", True), ("$.a", True), ("$.a.b[1]", True), ("$.a.b[1]:7", True), ('$["a"].c:text', True),
        ("$.a.n:null", True), ("$.a.b[2]", False), ("$.x", False), ("$.a.b[1]:8", False), ("$.a.c:7", False),
    ],
)  # fmt: skip
def test_paths_into_json(path: str, shown: bool) -> None:
    record = Record(value=b'{"a": {"b": [1, 7], "c": "text", "n": null}}')
    assert read_filters((), (), (path,))(record) is shown


def test_a_path_that_can_not_be_read_is_refused() -> None:
    for path in ("a", "$a", "$.a[x]", "$[", "$.."):
        with pytest.raises(HttpError):
            read_filters((), (), (path,))
