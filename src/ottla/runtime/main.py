"""Runs a node as a process of its own: `ottla start` ends up here."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable
from typing import Protocol

import uvloop

from ottla.config import BrokerConfig
from ottla.runtime.disk import allow_open_files
from ottla.runtime.memory import keep_buffers_at_hand, quiet_collector
from ottla.runtime.node import Node
from ottla.runtime.turns import Turns

log = logging.getLogger(__name__)


class Companion(Protocol):
    """Something that works beside the node, in its loop, and ends before it."""

    def close(self) -> Awaitable[None]: ...


Beside = Callable[[Node], Companion | None]
"""Called when the node has started."""


def run(config: BrokerConfig, *, cluster_port_if_free: int | None = None, beside: Beside | None = None) -> None:
    """Serve until SIGTERM or SIGINT. Raises what kept the node from starting, or from stopping cleanly."""
    allow_open_files()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(config, cluster_port_if_free, beside))


async def _serve(config: BrokerConfig, cluster_port_if_free: int | None, beside: Beside | None) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    node = Node(config, loop=loop, cluster_port_if_free=cluster_port_if_free)
    node.on_broken = stop.set
    if not await _start(node, stop):
        return
    keep_buffers_at_hand()
    quiet_collector()
    turns = Turns(config, lambda: node.image)
    node.on_brokers_changed = turns.choose
    turns.choose()
    companion = None
    try:
        companion = beside(node) if beside is not None else None
        await stop.wait()
        log.info("stopping")
    finally:
        if companion is not None:
            await companion.close()
        await node.stop()


async def _start(node: Node, stop: asyncio.Event) -> bool:
    """A node that waits for others may be told to stop before it has started: then this is false."""
    starting = asyncio.ensure_future(node.start())
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not starting.done():
        log.info("stopping before the node has started")
        starting.cancel()
        await asyncio.wait((starting,))
    if starting.cancelled():
        return False
    starting.result()
    return True
