"""Compaction in a process of its own, at low priority: the broker's interpreter is free for clients meanwhile.

    broker  →  child    the task, as JSON on its standard input
    child   →  broker   the result, as JSON on its standard output, or one line {"error": …, "is_damage": …}

The child takes the CPU and the disk only when nobody else wants them, for a minute; a task that is not done by then
gets a small share, or a log that is written to all the time would grow for ever. It ends with its task, so its memory
is given back whole. It must not outlive the broker, since the next one would write the same files: the kernel is told
to kill it with its parent, and it looks for itself as it goes on.

`python -m ottla.runtime.cleaning_process DIRECTORY BROKER_PID` is the child.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from ottla.errors import CorruptBatchError, StorageError
from ottla.runtime import priority
from ottla.runtime.c_library import c_function
from ottla.runtime.disk import OsDisk
from ottla.storage.compaction_task import Done, Task

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE_S = 60.0
_PR_SET_PDEATHSIG = 1
_SIGKILL = 9


class CleaningProcess:
    """Runs tasks, one at a time."""

    def __init__(self, root: str) -> None:
        self._root = os.path.abspath(root)
        self._process: subprocess.Popen[str] | None = None
        self._is_cancelled = False

    def compact(self, task: Task) -> Done:
        """In a thread, which waits. CorruptBatchError if a batch is damaged, StorageError if it could not be done."""
        command = [sys.executable, "-P", "-m", "ottla.runtime.cleaning_process", self._root, str(os.getpid())]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._process = process
        if self._is_cancelled:
            process.kill()
        told, complaint = process.communicate(task.to_json())
        self._process = None
        if process.returncode != 0:
            raise StorageError(f"the cleaner ended with {process.returncode}: {complaint.strip()[-500:]}")
        answer = json.loads(told)
        if "error" in answer:
            raise (CorruptBatchError if answer["is_damage"] else StorageError)(answer["error"])
        return Done.from_json(told)

    def cancel(self) -> None:
        """In the loop: what is under way is not wanted any more, nor is anything after it."""
        self._is_cancelled = True
        process = self._process
        if process is not None:
            process.kill()


class Pace:
    """Sleeps so that no more than so many bytes a second are read and written."""

    def __init__(self, bytes_per_s: float, check: Callable[[], None]) -> None:
        self._bytes_per_s = bytes_per_s
        self._check = check
        self._began = time.monotonic()
        self._done_bytes = 0

    def __call__(self, size_bytes: int) -> None:
        self._check()
        self._done_bytes += size_bytes
        ahead_s = self._done_bytes / self._bytes_per_s - (time.monotonic() - self._began)
        if ahead_s > 0:
            time.sleep(ahead_s)


class Patience:
    """Does something once, when its time is over."""

    def __init__(self, seconds: float, lose: Callable[[], None]) -> None:
        self._until = time.monotonic() + seconds
        self._lose = lose
        self._is_lost = False

    def check(self) -> None:
        if not self._is_lost and time.monotonic() > self._until:
            self._is_lost = True
            self._lose()


def main(root: str, broker: int) -> None:
    from ottla.storage.compaction import compact  # the broker has no use for it

    _die_with_parent()
    os.nice(priority.NICENESS)
    priority.step_aside()
    patience = Patience(PATIENCE_S, priority.take_part)

    def check() -> None:
        if os.getppid() != broker:
            sys.exit("the broker is gone")
        patience.check()

    check()
    gc.disable()  # nothing here has cycles, and going over a million keys takes its time
    task = Task.from_json(sys.stdin.read())
    try:
        answer = compact(OsDisk(root), task, Pace(task.io_bytes_per_s, check)).to_json()
    except (CorruptBatchError, OSError) as error:
        answer = json.dumps({"error": str(error), "is_damage": isinstance(error, CorruptBatchError)})
    sys.stdout.write(answer)


def _die_with_parent() -> None:
    with suppress(OSError):
        c_function("prctl", "c_int", "c_ulong")(_PR_SET_PDEATHSIG, _SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
