"""Runs jobs in processes of their own, lets them start together, and gathers what they tell."""

import multiprocessing
import queue
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ottla.cli.bench.jobs import Done, Job, Starter
from ottla.cli.failures import CommandError

Work = Callable[[Job, Starter], Done]

ALIVE_CHECK_S = 1.0
"""How soon a process that was killed is missed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ready:
    """A job is connected and waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Progress:
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failed:
    reason: str


class _Child:
    """A job's line to its parent."""

    def __init__(self, outbox: Any, gate: Any) -> None:
        self._outbox = outbox
        self._gate = gate

    def wait_for_others(self) -> None:
        self._outbox.put(_Ready())
        self._gate.wait()

    def tell_progress(self, records: int) -> None:
        self._outbox.put(_Progress(records=records))


def run_together(
    work: Sequence[tuple[Work, Job]], *, at_start: Callable[[], None], show: Callable[[int], None]
) -> list[Done]:
    """What each job returned, in any order. `at_start` is called when all are ready; `show` with the records so far."""
    context = multiprocessing.get_context("spawn")
    outbox, gate = context.Queue(), context.Event()
    processes = [context.Process(target=_run, args=(*each, outbox, gate), daemon=True) for each in work]
    try:
        with _interrupt_held():
            for process in processes:
                process.start()
        for _ in processes:
            _next_message(outbox, processes)
        at_start()
        gate.set()
        return _gather(outbox, processes, show)
    finally:
        for process in processes:
            if process.pid is not None:
                process.terminate()
                process.join()


@contextmanager
def _interrupt_held() -> Iterator[None]:
    """Ctrl-C is for the parent, who then ends the others: processes that are started in here never see one.

    They inherit that it is held, and the parent is given it at the end. To ignore it meanwhile would lose it.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _run(work: Work, job: Job, outbox: Any, gate: Any) -> None:
    try:
        outbox.put(work(job, _Child(outbox, gate)))
    except Exception as error:
        outbox.put(_Failed(reason=str(error) or repr(error)))


def _gather(outbox: Any, processes: Sequence[Any], show: Callable[[int], None]) -> list[Done]:
    results: list[Done] = []
    records = 0
    while len(results) < len(processes):
        message = _next_message(outbox, processes)
        if isinstance(message, Done):
            results.append(message)
        elif isinstance(message, _Progress):
            records += message.records
            show(records)
    return results


def _next_message(outbox: Any, processes: Sequence[Any]) -> Any:
    while True:
        try:
            message = outbox.get(timeout=ALIVE_CHECK_S)
        except queue.Empty:
            killed = [process.exitcode for process in processes if process.exitcode]
            if killed:
                raise CommandError(f"A client process ended with code {killed[0]}") from None
            continue
        if isinstance(message, _Failed):
            raise CommandError(f"A client failed: {message.reason}")
        return message
