"""Runs a node as a process of its own: `ottla start` ends up here."""

from __future__ import annotations

import asyncio
import logging
import signal

import uvloop

from ottla.config import BrokerConfig
from ottla.runtime.memory import keep_buffers_at_hand, quiet_collector
from ottla.runtime.node import Node

log = logging.getLogger(__name__)


def run(config: BrokerConfig) -> None:
    """Serve until SIGTERM or SIGINT. Raises what kept the node from starting, or from stopping cleanly."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(config))


async def _serve(config: BrokerConfig) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    node = Node(config, loop=loop)
    await node.start()
    keep_buffers_at_hand()
    quiet_collector()
    await stop.wait()
    log.info("stopping")
    await node.stop()
