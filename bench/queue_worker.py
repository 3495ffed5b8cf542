"""One process that uses a queue: `python -m bench.queue_worker KIND DIRECTORY single|batched|read SECONDS`.

It opens the queue, says `ready`, waits for a line, works, and says what it did as JSON: how many messages, when the
first and the last (on the clock that all processes of a machine share), and its CPU time.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.queue_kinds import KINDS, QueueKind

MESSAGE = bytes(range(100))
BATCH = 1_000


def _single(queue: QueueKind, until: float) -> Iterator[int]:
    while time.monotonic() < until:
        queue.put(MESSAGE)
        yield 1


def _batched(queue: QueueKind, until: float) -> Iterator[int]:
    many = [MESSAGE] * BATCH
    while time.monotonic() < until:
        queue.put_many(many)
        yield BATCH


def _read(queue: QueueKind, _until: float) -> Iterator[int]:
    yield from queue.read()


ACTIONS: dict[str, Callable[[QueueKind, float], Iterator[int]]] = {
    "single": _single,
    "batched": _batched,
    "read": _read,
}


def main(kind: str, directory: str, action: str, seconds: float) -> None:
    queue = KINDS[kind](Path(directory))
    print("ready", flush=True)
    sys.stdin.readline()
    began, began_cpu = time.monotonic(), time.process_time()
    first_at, last_at, count = 0.0, began, 0
    for number in ACTIONS[action](queue, began + seconds):
        last_at = time.monotonic()
        first_at = first_at or last_at
        count += number
    cpu_s = time.process_time() - began_cpu
    told = {"count": count, "began": began, "first": first_at, "last": last_at, "cpu_s": cpu_s}
    print(json.dumps(told), flush=True)
    sys.stdin.readline()  # the one that serves a queue to the others stays until they are done
    queue.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4]))
