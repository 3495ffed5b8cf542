"""Runs a node as a process of its own: `ottla start` ends up here."""

from __future__ import annotations

import asyncio
import logging
import signal
from enum import IntEnum

import uvloop

from ottla.config import BrokerConfig
from ottla.errors import ConfigError, DirectoryLockedError, StorageError
from ottla.runtime.memory import keep_buffers_at_hand, quiet_collector
from ottla.runtime.node import Node
from ottla.runtime.server import PortTakenError

log = logging.getLogger(__name__)


class ExitCode(IntEnum):
    """What the process says when it ends: scripts and supervisors rely on it."""

    OK = 0
    FAILED = 1
    BAD_CONFIG = 2
    PORT_TAKEN = 3
    DIRECTORY_LOCKED = 4
    DISK_FAILED = 5


def run(config: BrokerConfig) -> int:
    """Serve until SIGTERM or SIGINT. Returns the exit code; what went wrong is in the log, in one line."""
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(config))
    except PortTakenError as error:
        return _refuse(ExitCode.PORT_TAKEN, error)
    except DirectoryLockedError as error:
        return _refuse(ExitCode.DIRECTORY_LOCKED, error)
    except ConfigError as error:
        return _refuse(ExitCode.BAD_CONFIG, error)
    except (StorageError, OSError) as error:
        return _refuse(ExitCode.DISK_FAILED, error)
    return ExitCode.OK


def _refuse(code: ExitCode, error: Exception) -> int:
    log.error("%s", error)
    return code


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
