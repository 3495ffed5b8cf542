"""A stream that kills itself at a given step: before or after anything that matters to a transaction."""

import itertools
import os
import signal
from collections.abc import Callable
from typing import Any

from ottla.client.consumer import Consumer
from ottla.client.producer import Producer
from ottla.client.transaction import Transaction
from ottla.stream import process

NEVER = 0
STEPS: tuple[tuple[type, str], ...] = (
    (Consumer, "poll"),
    (Producer, "send"),
    (Producer, "send_offsets"),
    (Transaction, "__enter__"),
    (Transaction, "commit"),
)


def die_at(step: int) -> None:
    counter = itertools.count(1)

    def tick() -> None:
        if next(counter) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    for owner, name in STEPS:
        setattr(owner, name, _with_steps(getattr(owner, name), tick))


def _with_steps(method: Callable[..., Any], tick: Callable[[], None]) -> Callable[..., Any]:
    def wrapped(*arguments: Any, **options: Any) -> Any:
        tick()
        try:
            return method(*arguments, **options)
        finally:
            tick()

    return wrapped


def work(bootstrap: str, source: str, target: str, step: int) -> None:
    """Steps are counted from the first record on: how often the consumer has to ask before that is up to chance."""

    def copied(message: Any) -> Any:
        if step != NEVER and not started:
            started.append(True)
            die_at(step)
        return [message.value, message.value + b" again"]

    started: list[bool] = []
    process(
        source,
        target,
        copied,
        group="copiers",
        instance="one",
        bootstrap_servers=bootstrap,
        batch_records=3,
        idle_ms=3_000,
    )
