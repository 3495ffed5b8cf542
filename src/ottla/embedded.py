"""A node inside your own process, on a thread of its own: for tests, notebooks and the file-based queue.

It is the same node as `ottla start` runs, with the same files and the same port for any Kafka client.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

import uvloop

from ottla.config import BrokerConfig
from ottla.runtime.node import Node

START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 60.0


class EmbeddedNode:
    """`with EmbeddedNode("./data") as node: ... node.bootstrap ...`

    `settings` are those of `BrokerConfig`; port 0, the default, takes a free one.
    """

    def __init__(self, data_dir: str | Path, *, port: int = 0, **settings: Any) -> None:
        self.config = BrokerConfig(data_dir=str(data_dir), port=port, **settings)
        self.node: Node | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._started = threading.Event()
        self._stop: asyncio.Event | None = None
        self._error: BaseException | None = None
        os.register_at_fork(after_in_child=partial(_drop_in_child, weakref.ref(self)))

    @property
    def bootstrap(self) -> str:
        """Where clients connect: host:port."""
        if self.node is None:
            raise RuntimeError("the node is not started")
        return f"{self.config.advertised_host}:{self.node.port}"

    @property
    def running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> EmbeddedNode:
        """Returns when the node serves; raises what kept it from starting."""
        self._started.clear()
        self._error = None
        self._thread = threading.Thread(target=self._run, name="ottla-node", daemon=True)
        self._thread.start()
        if not self._started.wait(START_SECONDS_MAX):
            raise TimeoutError(f"the node did not start within {START_SECONDS_MAX:.0f} s")
        if self._error is not None:
            self._thread.join()
            self._thread = None
            raise self._error
        return self

    def stop(self) -> None:
        """Returns when everything is on disk and the directory is free for another process."""
        thread, loop, stop = self._thread, self._loop, self._stop
        if thread is None or loop is None or stop is None:
            return
        if thread.is_alive():
            loop.call_soon_threadsafe(stop.set)
            thread.join(STOP_SECONDS_MAX)
        self._thread = None
        self.node = None
        if self._error is not None:
            raise self._error

    def call_soon(self, callback: Callable[[Node], object]) -> None:
        """Run `callback(node)` in the node's thread: the only one in which a node may be touched. From any thread."""
        loop, node = self._loop, self.node
        if loop is None or node is None:
            raise RuntimeError("the node is not running")
        loop.call_soon_threadsafe(callback, node)

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._serve())
        except BaseException as error:
            self._error = error
        finally:
            self._started.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        node = Node(self.config, loop=self._loop)
        await node.start()
        self.node = node
        self._started.set()
        await self._stop.wait()
        await node.stop()

    def __enter__(self) -> EmbeddedNode:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _drop_in_child(reference: weakref.ref[EmbeddedNode]) -> None:
    """The node runs in the parent. A child that kept its sockets would keep its clients from seeing it end."""
    embedded = reference()
    if embedded is not None and embedded.node is not None:
        embedded.node.drop_in_child()
        embedded.node = None
