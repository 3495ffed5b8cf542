"""A stream that kills itself at a given step: before or after anything that matters to a transaction."""

from typing import Any

from ottla.client.consumer import Consumer
from ottla.client.producer import Producer
from ottla.client.transaction import Transaction
from ottla.stream import process
from tests.dying import NEVER, die_at

STEPS: tuple[tuple[type, str], ...] = (
    (Consumer, "poll"),
    (Producer, "send"),
    (Producer, "send_offsets"),
    (Transaction, "__enter__"),
    (Transaction, "commit"),
)


def work(bootstrap: str, source: str, target: str, step: int) -> None:
    """Steps are counted from the first record on: how often the consumer has to ask before that is up to chance."""

    def copied(message: Any) -> Any:
        if step != NEVER and not started:
            started.append(True)
            die_at(step, STEPS)
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
