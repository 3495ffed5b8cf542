"""Processes that belong together: started, watched, started again when they die, and stopped as one.

A node that dies comes back after a pause, which grows while it keeps dying. One that can't start at all (its port is
taken, its directory is in use) ends the whole: waiting would not help, and a person should hear of it.

Each has a pipe as its standard input, to which nothing is ever written: its end tells that we were killed.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ottla.cli.failures import ExitCode

RESTART_MS_MIN = 500
RESTART_MS_MAX = 30_000
HEALTHY_AFTER_S = 30.0
"""A process that has run for this long begins with the shortest pause again."""
KILL_AFTER_S = 60.0
"""How long a process may take to stop."""
READY_INTERVAL_S = 0.05
LOG_TAIL_BYTES = 4_096

HOPELESS = frozenset({ExitCode.USAGE, ExitCode.PORT_TAKEN, ExitCode.DIRECTORY_LOCKED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What is run, and how one sees that it serves."""

    name: str
    command: Sequence[str]
    log_file: Path
    is_ready: Callable[[int], bool]
    """Whether the process with this id serves."""


class Child:
    """One program over any number of processes."""

    def __init__(self, program: Program, say: Callable[[str], None]) -> None:
        self.program = program
        self.pid: int | None = None
        self.exit_code: int | None = None
        """Of the last process, once it has ended."""
        self.restarts = 0
        self._say = say
        self._process: asyncio.subprocess.Process | None = None
        self._stopping = asyncio.Event()
        self._was_ready = False

    async def run(self, on_ready: Callable[[Child], None]) -> int:
        """Until it is stopped, or can't be started. The exit code of the last process."""
        pause_ms = RESTART_MS_MIN
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            code = await self._run_once(on_ready)
            if self._stopping.is_set() or (code in HOPELESS and not self._was_ready):
                return code
            if loop.time() - began >= HEALTHY_AFTER_S:
                pause_ms = RESTART_MS_MIN
            self._say(f"{self.program.name} {_ended(code)}; it is started again in {pause_ms / 1_000:g} s")
            if await self._paused(pause_ms):
                return code
            pause_ms = min(2 * pause_ms, RESTART_MS_MAX)
            self.restarts += 1

    async def _run_once(self, on_ready: Callable[[Child], None]) -> int:
        self.program.log_file.parent.mkdir(parents=True, exist_ok=True)
        with self.program.log_file.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *self.program.command, stdin=asyncio.subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
            )
        self._process, self.pid = process, process.pid
        if self._stopping.is_set():
            process.terminate()
        ended = asyncio.ensure_future(process.wait())
        await self._until_ready(process.pid, ended, on_ready)
        self.exit_code = await ended
        self.pid = None
        return self.exit_code

    async def _until_ready(self, pid: int, ended: asyncio.Future[int], on_ready: Callable[[Child], None]) -> None:
        while not ended.done():
            if self.program.is_ready(pid):
                self._was_ready = True
                on_ready(self)
                return
            await asyncio.wait((ended,), timeout=READY_INTERVAL_S)

    async def _paused(self, pause_ms: int) -> bool:
        """Whether it was stopped meanwhile."""
        try:
            async with asyncio.timeout(pause_ms / 1_000):
                await self._stopping.wait()
        except TimeoutError:
            return False
        return True

    def stop(self) -> None:
        self._stopping.set()
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        self._stopping.set()
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)

    def last_words(self) -> str:
        """The last line of its log."""
        with self.program.log_file.open("rb") as log:
            size = log.seek(0, 2)
            log.seek(max(0, size - LOG_TAIL_BYTES))
            lines = log.read().decode(errors="replace").splitlines()
        return lines[-1] if lines else ""


class Supervisor:
    def __init__(self, programs: Sequence[Program], say: Callable[[str], None]) -> None:
        self._say = say
        self.children = [Child(program, say) for program in programs]
        self._signals = 0

    async def run(self, on_ready: Callable[[Child], None]) -> Child | None:
        """Until a signal says so, and then until all have stopped. The child that could not be started, if any."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, self.stop)
        runs = {asyncio.ensure_future(child.run(on_ready)): child for child in self.children}
        waiting = set(runs)
        failed: Child | None = None
        while waiting:
            ended, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if not self._signals:
                failed = runs[next(iter(ended))]
                self.stop()
        for run in runs:
            run.result()
        return failed

    def stop(self) -> None:
        """All at once; whoever asks a second time, or waits too long, has them killed."""
        self._signals += 1
        if self._signals > 1:
            self._say("killing what has not stopped yet")
            self._kill()
            return
        for child in self.children:
            child.stop()
        asyncio.get_running_loop().call_later(KILL_AFTER_S, self._kill)

    def _kill(self) -> None:
        for child in self.children:
            child.kill()


def _ended(code: int) -> str:
    return f"was killed by signal {-code}" if code < 0 else f"has ended with exit code {code}"
