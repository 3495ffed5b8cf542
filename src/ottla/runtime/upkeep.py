"""What must be done now and then, off the event loop where it takes long: retention, checkpoints, forgotten producers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.config import BrokerConfig
    from ottla.ports import Clock
    from ottla.runtime.timers import Deadline, Timers
    from ottla.storage.log_manager import LogManager

log = logging.getLogger(__name__)


class Upkeep:
    def __init__(
        self,
        *,
        logs: LogManager,
        config: BrokerConfig,
        clock: Clock,
        timers: Timers,
        loop: asyncio.AbstractEventLoop,
        executor: Executor,
    ) -> None:
        self._logs = logs
        self._config = config
        self._clock = clock
        self._timers = timers
        self._loop = loop
        self._executor = executor
        self._deadlines: dict[str, Deadline] = {}
