"""Copies records from one topic to another by `ottla.stream`, which is what programs are meant to use.

python -m tests.cluster.streamer BOOTSTRAP SOURCE TARGET INSTANCE. Goes on until it is killed.
"""

import logging
import sys

from ottla.client.message import Message
from ottla.stream import Output, process


def copied(message: Message) -> Output:
    return Output(value=message.value, key=message.value)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    bootstrap, source, target, instance = sys.argv[1:]
    process(
        source,
        target,
        copied,
        group=f"copy-{source}",
        instance=instance,
        bootstrap_servers=bootstrap,
        batch_records=20,
        transaction_timeout_ms=10_000,
    )
