"""What must be done now and then: checkpoints of the journal, retention, forgotten producers.

What takes long (syncing segments, zeroing journal files) runs in a thread, one job at a time; the loop only decides
what is next and takes note of what was done.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from typing import TYPE_CHECKING

from ottla.config import Durability

if TYPE_CHECKING:
    from ottla.config import BrokerConfig
    from ottla.ports import Clock
    from ottla.runtime.timers import Timers
    from ottla.storage.checkpoint import Job
    from ottla.storage.log import Log
    from ottla.storage.log_manager import Known, LogManager

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
        known: Callable[[], Iterable[Known]],
        high_watermark: Callable[[Log], int],
        changed: Callable[[], None],
    ) -> None:
        """`known` are the partitions of this node; `changed` is called when a log has to be committed."""
        self._logs = logs
        self._config = config
        self._clock = clock
        self._timers = timers
        self._loop = loop
        self._executor = executor
        self._known = known
        self._high_watermark = high_watermark
        self._changed = changed
        self._pass: Iterator[int] | None = None
        self._job: Job | None = None
        self._stopped = False
        self._idle = asyncio.Event()
        self._idle.set()

    def start(self) -> None:
        storage = self._config.storage
        self._every(storage.retention_check_interval_ms, self._start_retention)
        self._every(storage.recovery_checkpoint_interval_ms, self.look)
        if self._config.journal.durability is Durability.INTERVAL:
            self._every(self._config.journal.sync_interval_ms, self.look)
        self.look()

    def look(self) -> None:
        """See whether there is something to do in the background."""
        if self._job is None and not self._stopped:
            self._begin(self._logs.next_job())

    async def stop(self) -> None:
        self._stopped = True
        await self._idle.wait()

    # Jobs, one at a time: run in a thread, finish in the loop.

    def _begin(self, job: Job | None) -> None:
        self._job = job
        if job is None:
            self._idle.set()
        else:
            self._idle.clear()
            self._executor.submit(self._run, job)

    def _run(self, job: Job) -> None:
        try:
            job.run()
        finally:
            self._loop.call_soon_threadsafe(self._finish, job)

    def _finish(self, job: Job) -> None:
        following = job.finish()
        if following is None and not self._stopped:
            following = self._logs.next_job()
        self._begin(following)

    # By the clock.

    def _every(self, interval_ms: int, action: Callable[[], None]) -> None:
        def again() -> None:
            try:
                action()
            except Exception:
                log.exception("upkeep failed; it is tried again in %d ms", interval_ms)
            if not self._stopped:
                self._timers.after_ms(interval_ms, again)

        self._timers.after_ms(interval_ms, again)

    def _start_retention(self) -> None:
        if self._pass is None:
            self._pass = self._logs.retention_pass(list(self._known()), self._high_watermark)
            self._retain_slice()

    def _retain_slice(self) -> None:
        """A few logs at a time: clients have their turn in between."""
        if self._pass is None or self._stopped:
            return
        deleted = next(self._pass, None)
        if deleted is None:
            self._pass = None
            self.look()
            return
        if deleted:
            log.info("retention let go of %d segments", deleted)
            self._changed()
        self._loop.call_soon(self._retain_slice)
