"""A hot route is served by the connection itself, or by way of the framework: no client can tell the difference.

A path with an escape in it is left to the framework, so both ways are a request away.
"""

import json
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.errors import DiskFailedError
from ottla.http.heads import CONSUME, GENERAL, HEALTH, METRICS, PRODUCE, STREAM, Fields, Heads
from tests.http_api.rig import HttpNode

TOPIC, OTHER = "w-hot", "w-gen"
"""As long as each other."""
PARTITIONS = 3
HEADERS = {"content-type", "content-length", "retry-after", "connection"}


def _told(answer: httpx.Response) -> tuple[int, dict[str, str], bytes]:
    headers = {name: value for name, value in answer.headers.items() if name in HEADERS}
    return answer.status_code, headers, answer.content.replace(OTHER.encode(), TOPIC.encode())


def _both(node: HttpNode, body: bytes, content_type: str, query: str) -> tuple[Any, Any]:
    headers = {"content-type": content_type}
    hot = node.client.post(f"/topics/{TOPIC}/produce{query}", content=body, headers=headers)
    general = node.client.post(f"/topics/{OTHER.replace('w', '%77')}/produce{query}", content=body, headers=headers)
    return _told(hot), _told(general)


@pytest.fixture(scope="module")
def two(node: HttpNode) -> HttpNode:
    for topic in (TOPIC, OTHER):
        node.create(topic, partitions=PARTITIONS)
    return node


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
messages = st.fixed_dictionaries(
    {"value": values},
    optional={
        "key": values,
        "headers": st.none() | st.dictionaries(st.text(max_size=5), st.none() | st.text(max_size=5), max_size=2),
        "partition": st.none() | st.integers(-1, PARTITIONS),
        "acks": st.sampled_from(["all", -1, 1, None, "some"]),
        "extra": st.just(1),
    },
)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(messages, min_size=1, max_size=4), st.sampled_from(["one", "list", "lines"]), st.data())
def test_messages_are_taken_and_refused_alike(
    two: HttpNode, some: list[dict[str, Any]], form: str, data: st.DataObject
) -> None:
    keyed = [
        {**message, "key": message.get("key") or "k"} for message in some
    ]  # without a key, the partition is chosen in turn
    body = {
        "one": json.dumps(keyed[0]),
        "list": json.dumps(keyed),
        "lines": "\n".join(map(json.dumps, keyed)),
    }[form].encode(errors="surrogatepass")
    cut = data.draw(st.integers(0, 3))
    query = data.draw(st.sampled_from(["", "?encoding=json", "?encoding=base64", "?encoding=odd", "?x=1"]))
    hot, general = _both(two, body[: len(body) - cut], "application/x-ndjson" if form == "lines" else "", query)
    assert hot == general


@pytest.mark.parametrize(
    "query",
    [
        "", "?limit=1000", "?offset=3&limit=2", "?offset=latest", "?offset=earliest&encoding=json", "?encoding=base64",
        "?offset=99999", "?offset=-1", "?limit=0", "?limit=x", "?wait_ms=1&offset=latest", "?encoding=odd",
        "?offset=2020-01-01T00:00:00Z", "?offset=%65arliest", "?limit=5&limit=2", "?limit=",
    ],
)  # fmt: skip
def test_messages_are_read_alike(two: HttpNode, query: str) -> None:
    two.produce(TOPIC, {"value": "text", "partition": 0}, {"value": {"a": 1}, "headers": {"h": "1"}, "partition": 0})
    two.client.post(f"/topics/{TOPIC}/produce?encoding=base64", json={"value": "/w==", "partition": 0})
    for partition in ("0", "7", "99999999999"):
        path = f"partitions/{partition}/consume{query}"
        hot = two.client.get(f"/topics/{TOPIC}/{path}")
        general = two.client.get(f"/topics/{TOPIC.replace('w', '%77')}/{path}")
        assert _told(hot) == _told(general)


def test_probes_are_answered_alike(two: HttpNode) -> None:
    assert _told(two.client.get("/health")) == _told(two.client.get("/%68ealth"))
    hot, general = two.client.get("/metrics"), two.client.get("/%6Detrics")
    assert hot.headers["content-type"] == general.headers["content-type"]
    names = [{line.split(" ")[2] for line in each.text.splitlines() if line[:1] == "#"} for each in (hot, general)]
    assert names[0] == names[1]
    two.in_node(lambda inner: setattr(inner.committer, "failed", DiskFailedError("gone")))
    try:
        hot, general = two.client.get("/health"), two.client.get("/%68ealth")
    finally:
        two.in_node(lambda inner: setattr(inner.committer, "failed", None))
    assert (hot.status_code, hot.content) == (general.status_code, general.content)
    assert hot.status_code == 503


def test_an_unknown_topic_is_told_alike(two: HttpNode) -> None:
    hot = two.client.post("/topics/w-none/produce", json={"value": 1})
    general = two.client.post("/topics/%77-none/produce", json={"value": 1})
    assert _told(hot) == _told(general)
    assert hot.status_code == 404


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("POST /topics/a.b-c_1/produce HTTP/1.1", PRODUCE),
        ("POST /topics/a/produce?encoding=base64 HTTP/1.1", PRODUCE),
        ("GET /topics/a/partitions/0/consume?offset=5 HTTP/1.1", CONSUME),
        ("GET /topics/a/stream?offset=earliest HTTP/1.1", STREAM),
        ("GET /health HTTP/1.1", HEALTH),
        ("GET /metrics HTTP/1.1", METRICS),
        ("HEAD /health HTTP/1.1", GENERAL),
        ("GET /health?x HTTP/1.1", GENERAL),
        ("POST /topics/a/produce HTTP/1.0", GENERAL),
        ("POST /topics/a%20b/produce HTTP/1.1", GENERAL),
        ("POST /topics//produce HTTP/1.1", GENERAL),
        ("POST /topics/a/b/produce HTTP/1.1", GENERAL),
        ("POST  /topics/a/produce HTTP/1.1", GENERAL),
        ("GET /topics/a/produce HTTP/1.1", GENERAL),
        ("POST /topics/a/produce?\x7f HTTP/1.1", GENERAL),
        ("POST http://x/topics/a/produce HTTP/1.1", GENERAL),
        ("GET /topics/a/partitions/x/consume HTTP/1.1", GENERAL),
        (f"POST /topics/{'a' * 250}/produce HTTP/1.1", GENERAL),
    ],
)
def test_only_what_is_spelled_plainly_is_hot(line: str, kind: int) -> None:
    heads = Heads()
    assert [heads.line(line.encode()).kind for _ in range(2)] == [kind, kind]


@pytest.mark.parametrize(
    ("fields", "read"),
    [
        ("Host: x", Fields(True, 0)),
        ("Content-Length: 12\r\nContent-Type: Application/JSON", Fields(True, 12, "application/json")),
        ("content-length: 12\r\nconnection: close", Fields(True, 12, "", False)),
        ("Transfer-Encoding: chunked", Fields(False)),
        ("Expect: 100-continue\r\nContent-Length: 1", Fields(False)),
        ("Connection: Upgrade\r\nUpgrade: websocket", Fields(False)),
        ("Content-Length: 12\r\nContent-Length: 13", Fields(False)),
        ("Content-Length: 12\r\nTransfer-Encoding: chunked", Fields(False)),
        ("Content-Length: -1", Fields(False)),
        ("Content-Length: 1e3", Fields(False)),
        ("no colon", Fields(False)),
        ("bad\0name: x", Fields(False)),
    ],
)
def test_only_a_body_of_known_length_is_plain(fields: str, read: Fields) -> None:
    heads = Heads()
    assert [heads.fields(f"\r\n{fields}".encode()) for _ in range(2)] == [read, read]


def test_heads_that_never_come_again_take_no_room() -> None:
    heads = Heads()
    for number in range(2_000):
        heads.line(b"POST /topics/%d/produce HTTP/1.1" % number)
        heads.fields(b"\r\ntrace: %d" % number)
        heads.fields(b"\r\ncookie: %d%s" % (number, b"x" * 2_000))
    assert len(heads._lines) <= 512
    assert len(heads._fields) <= 512
