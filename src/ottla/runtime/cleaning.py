"""The log cleaner: finds the log that needs compaction most, has it done elsewhere, and puts the result in its place.

The event loop does what costs little: it plans, renames files and takes note. The work itself, a turn of a loop for
every record, would keep the interpreter from serving clients even in a thread, so it is done by another process
(`cleaning_process`); a simulated node does it in the executor that it was given. One log at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Protocol

from ottla.errors import CorruptBatchError, DiskFailedError, OttlaError
from ottla.storage.compaction_plan import task_of
from ottla.storage.compaction_swap import Swap, remove_cleaned

if TYPE_CHECKING:
    from ottla.config import CleanerConfig
    from ottla.ports import Clock
    from ottla.runtime.timers import Timers
    from ottla.storage.compaction_plan import Plan
    from ottla.storage.compaction_task import Done, Task
    from ottla.storage.log import Log
    from ottla.storage.log_manager import LogManager
    from ottla.storage.pending import Syncable
    from ottla.types import TopicPartition

log_lines = logging.getLogger(__name__)


class Compactor(Protocol):
    """Who does the work."""

    def compact(self, task: Task) -> Done:
        """In the executor. CorruptBatchError if a batch is damaged, StorageError if it could not be done."""

    def cancel(self) -> None:
        """In the loop: what is under way ends soon, and nothing follows."""


class Cleaning:
    """`start` and `stop`; in between it looks after the logs by itself."""

    def __init__(
        self,
        *,
        logs: LogManager,
        config: CleanerConfig,
        clock: Clock,
        timers: Timers,
        loop: asyncio.AbstractEventLoop,
        executor: Executor,
        high_watermark: Callable[[Log], int],
        held_back: Callable[[], None],
        compactor: Compactor,
    ) -> None:
        """`held_back` is called when there may be work for the upkeep first."""
        self._logs = logs
        self._config = config
        self._clock = clock
        self._timers = timers
        self._loop = loop
        self._executor = executor
        self._high_watermark = high_watermark
        self._held_back = held_back
        self._compactor = compactor
        self._damaged: set[TopicPartition] = set()
        """Logs in which a batch can't be read: they are left as they are until the next start."""
        self._is_stopped = False
        self._idle = asyncio.Event()
        self._idle.set()

    def start(self) -> None:
        if self._config.enable:
            self._timers.after_ms(self._config.backoff_ms, self._look)

    async def stop(self) -> None:
        self._is_stopped = True
        self._compactor.cancel()
        await self._idle.wait()

    def _look(self) -> None:
        """Find something to do, or come back later."""
        if self._is_stopped:
            return
        found: Plan | None = None
        try:
            if self._logs.group_commit.failure is None:
                found = self._logs.compaction(self._high_watermark, self._damaged)
            task = found and task_of(found, self._config, now_ms=self._clock.now_ms())
        except (OSError, OttlaError) as error:
            log_lines.warning("can't look for what to compact: %s", error)
            task = None
        if found is None or task is None:
            self._held_back()
            self._rest()
            return
        self._idle.clear()
        self._executor.submit(self._run, found, task)

    def _rest(self) -> None:
        self._idle.set()
        if not self._is_stopped:
            self._timers.after_ms(self._config.backoff_ms, self._look)

    # In the executor

    def _run(self, plan: Plan, task: Task) -> None:
        done: Done | None = None
        error: Exception | None = None
        try:
            done = self._compactor.compact(task)
        except Exception as problem:
            error = problem
        self._loop.call_soon_threadsafe(self._compacted, plan, task, done, error)

    def _sync(self, swap: Swap, plan: Plan) -> None:
        error: OSError | None = None
        try:
            swap.sync()
        except FileNotFoundError:
            pass  # the partition was deleted meanwhile
        except OSError as problem:
            error = problem
        self._loop.call_soon_threadsafe(self._synced, swap, plan, error)

    # In the loop

    def _compacted(self, plan: Plan, task: Task, done: Done | None, error: Exception | None) -> None:
        log = plan.log
        if error is not None and not self._is_stopped:
            self._give_up(log, error)
        if done is None or self._is_stopped or not self._logs.has(log):
            if self._logs.has(log):
                remove_cleaned(log.disk, log.directory, [source.base_offset for source in task.sources])
            self._rest()
            return
        log_lines.info(
            "%s is compacted up to offset %d: %d of %d records stay, %d of %d bytes",
            log.partition,
            done.clean_offset,
            done.records_kept,
            done.records_read,
            done.bytes_kept,
            done.bytes_read,
        )
        swap = Swap(plan, done)
        if swap.begin():
            self._step(swap, plan)
        else:
            self._rest()

    def _give_up(self, log: Log, error: Exception) -> None:
        if isinstance(error, CorruptBatchError):
            self._damaged.add(log.partition)
            log_lines.error("%s can't be compacted until it is mended: %s", log.partition, error)
        else:
            log_lines.warning("%s could not be compacted, it is tried again: %s", log.partition, error)

    def _step(self, swap: Swap, plan: Plan) -> None:
        try:
            if swap.step():
                if swap.needs_sync:
                    self._executor.submit(self._sync, swap, plan)
                else:
                    self._loop.call_soon(self._step, swap, plan)
                return
        except OSError as error:
            self._failed(error)
            return
        if swap.is_complete and self._logs.has(plan.log):
            self._executor.submit(self._note, self._logs.compacted(swap, plan.log))
        else:
            self._rest()

    def _synced(self, swap: Swap, plan: Plan, error: OSError | None) -> None:
        if error is None:
            self._step(swap, plan)
        else:
            self._failed(error)

    def _note(self, files: list[Syncable]) -> None:
        """In the executor: how far the log is compacted. If this is lost, some of it is compacted again."""
        try:
            for file in files:
                file.sync()
        except OSError as error:
            log_lines.warning("can't write down how far logs are compacted: %s", error)
        self._loop.call_soon_threadsafe(self._noted)

    def _noted(self) -> None:
        self._idle.set()
        self._look()

    def _failed(self, error: OSError) -> None:
        """Half of the names are changed, and nobody knows which are on the disk: a restart sorts that out."""
        self._logs.group_commit.poison(DiskFailedError(f"Could not replace segments: {error}"))
        self._rest()
