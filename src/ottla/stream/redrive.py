"""Dead letters go back to where they came from, each once: as a stream whose output is their own topics.

The group `<topic>.redrive` remembers which are done, so that one that is interrupted goes on later. Only what was there
at the beginning is taken: a letter that fails again comes back, and would be redriven for ever.
"""

import threading
from dataclasses import dataclass

from ottla.client.message import Message
from ottla.client.settings import Servers
from ottla.stream.dead_letter import parse, redriven
from ottla.stream.output import Output
from ottla.stream.processor import process

IDLE_MS = 15_000
"""Longer than it takes until the partitions of one that was killed are free again."""


def redrive_group(topic: str) -> str:
    return f"{topic}.redrive"


@dataclass(slots=True)
class Redriven:
    letters: int = 0
    others: int = 0
    """Records of the topic that are no dead letters, and were passed over."""


def redrive(topic: str, count: int, *, bootstrap_servers: Servers, to: str | None = None) -> Redriven:
    """Send the next `count` letters of `topic` back, each to its own topic or all of them `to` another."""
    stop = threading.Event()
    seen = set[tuple[int, int]]()
    letters = set[tuple[int, int]]()

    def back(message: Message) -> Output | None:
        place = (message.partition, message.offset)  # it may come again after an abort
        seen.add(place)
        if len(seen) >= count:
            stop.set()
        letter = parse(message.headers)
        if letter is None:
            return None
        letters.add(place)
        return Output(value=message.value, key=message.key, headers=redriven(letter), topic=to or letter.at.topic)

    if count:
        process(
            topic,
            None,
            back,
            group=redrive_group(topic),
            bootstrap_servers=bootstrap_servers,
            attempts=1,
            dead_letter_topic=None,
            batch_records=min(count, 500),
            idle_ms=IDLE_MS,
            stop=stop,
        )
    return Redriven(letters=len(letters), others=len(seen) - len(letters))
