"""A real node with its HTTP API, on real sockets and a real disk."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx

from ottla.config import HttpConfig
from ottla.embedded import EmbeddedNode
from ottla.http.listener import HttpListener
from ottla.http.serving import serve_node
from ottla.runtime.node import Node

TIMEOUT_S = 60.0


class HttpNode:
    """`with HttpNode(path) as node: node.client.get("/topics")`"""

    def __init__(self, data_dir: Path, *, http: dict[str, Any] | None = None, **settings: Any) -> None:
        self.node = EmbeddedNode(data_dir, http=HttpConfig(port=0, **(http or {})), **settings)
        self.listener: HttpListener | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def bootstrap(self) -> str:
        return self.node.bootstrap

    @property
    def url(self) -> str:
        assert self.listener is not None
        return f"http://127.0.0.1:{self.listener.port}"

    def __enter__(self) -> HttpNode:
        self.node.start()
        serving = threading.Event()

        def serve(node: Node) -> None:
            self._loop = asyncio.get_running_loop()
            self.listener = serve_node(node)
            serving.set()

        self.node.call_soon(serve)
        assert serving.wait(TIMEOUT_S)
        self.client = httpx.Client(base_url=self.url, timeout=TIMEOUT_S)
        return self

    def in_node(self, change: Any) -> Any:
        """Run `change(node)` in the node's thread, and wait for what it gives."""

        async def run() -> Any:
            return change(self.node.node)

        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(TIMEOUT_S)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.client.close()
        assert self.listener is not None
        assert self._loop is not None
        asyncio.run_coroutine_threadsafe(self.listener.close(), self._loop).result(TIMEOUT_S)
        self.node.stop()

    # What tests do again and again

    def create(self, topic: str, partitions: int = 1) -> None:
        made = self.client.post(f"/topics/{topic}", json={"num_partitions": partitions})
        assert made.status_code == 201, made.text

    def produce(self, topic: str, *messages: dict[str, Any]) -> Any:
        written = self.client.post(f"/topics/{topic}/produce", json=list(messages))
        assert written.status_code == 200, written.text
        return written.json()

    def consume(self, topic: str, partition: int = 0, **query: Any) -> Any:
        read = self.client.get(f"/topics/{topic}/partitions/{partition}/consume", params=query)
        assert read.status_code == 200, read.text
        return read.json()

    def values(self, topic: str, partition: int = 0, **query: Any) -> list[Any]:
        return [record["value"] for record in self.consume(topic, partition, limit=1000, **query)["records"]]


def error_of(answer: httpx.Response) -> tuple[int, str, str | None]:
    told = answer.json()["error"]
    assert told["message"].endswith("."), told
    return answer.status_code, told["code"], told["kafka_error"]
