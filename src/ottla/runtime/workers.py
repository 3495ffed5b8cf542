"""A few threads for what must not run in the event loop: syncs, and work in the background.

The standard library's ThreadPoolExecutor takes no more work once the main thread has ended, before `atexit` has had its
turn. A node in the process of a program that just ends (`ottla.embedded`) still has to commit what that program sent,
and to stop in order; so these threads work until they are told to stop, or until there is no interpreter.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Workers(Executor):
    """At most `count` threads, started when there is work; tasks are begun in the order they were given."""

    def __init__(self, count: int, name: str) -> None:
        self._count = count
        self._name = name
        self._tasks: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._stopped = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        if self._stopped:
            raise RuntimeError(f"{self._name} has been shut down")
        future: Future[T] = Future()
        self._tasks.put(lambda: _run(future, fn, args, kwargs))
        if len(self._threads) < self._count:
            thread = threading.Thread(target=self._work, name=f"{self._name}_{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """What was submitted is done first."""
        self._stopped = True
        for _ in self._threads:
            self._tasks.put(None)
        if wait:
            for thread in self._threads:
                thread.join()

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            task()


def _run(future: Future[Any], fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    try:
        future.set_result(fn(*args, **kwargs))
    except BaseException as error:
        future.set_exception(error)
