"""What nodes say in their logs, as a part of the trace of a simulation; and errors in there that nobody expected."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.errors import OttlaError

if TYPE_CHECKING:
    from ottla.testing.sim_world import World

LOGGER = logging.getLogger("ottla")


class LogIntoTrace(logging.Handler):
    """While it is entered, everything that is logged goes there and nowhere else."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.INFO)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        world = self._world
        world.trace.remark(f"{world.now:10.4f}  {world.who:<10} | {record.levelname.lower()}: {record.getMessage()}")
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and record.levelno >= logging.ERROR and not isinstance(error, OSError | OttlaError):
            world.fail(world.who, record.getMessage(), error)

    def __enter__(self) -> LogIntoTrace:
        self._before = LOGGER.level, LOGGER.propagate, LOGGER.handlers[:]
        LOGGER.handlers[:] = [self]
        LOGGER.setLevel(logging.INFO)
        LOGGER.propagate = False
        return self

    def __exit__(self, *_exit: object) -> None:
        LOGGER.level, LOGGER.propagate, LOGGER.handlers[:] = self._before
        LOGGER.setLevel(LOGGER.level)
