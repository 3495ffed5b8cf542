"""How long the turns of a thread are, as the kernel tells it."""

import ctypes
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from ottla.embedded import EmbeddedNode
from ottla.runtime import priority

SCHED_GETATTR = {"x86_64": 315, "aarch64": 275}[os.uname().machine]
HAS_TURNS = tuple(map(int, os.uname().release.split(".")[:2])) >= (6, 12)


class Turns(NamedTuple):
    policy: int
    niceness: int
    length_ns: int


def turns(thread_id: int = 0) -> Turns:
    attributes = ctypes.create_string_buffer(priority._SCHED_ATTR.size)
    assert ctypes.CDLL(None).syscall(SCHED_GETATTR, thread_id, attributes, len(attributes), 0) == 0
    _, policy, _, niceness, _, length_ns, _, _ = priority._SCHED_ATTR.unpack(attributes.raw)
    return Turns(policy, niceness, length_ns)


def nothing() -> None: ...


def in_a_thread(*steps: Callable[[], None]) -> list[Turns]:
    """After each step."""
    seen: list[Turns] = []

    def run() -> None:
        for step in steps:
            step()
            seen.append(turns())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return seen


@pytest.mark.skipif(not HAS_TURNS, reason="before Linux 6.12 all turns are alike")
def test_a_thread_takes_short_turns_and_so_do_those_that_it_starts() -> None:
    started: list[Turns] = []

    def take_turns() -> None:
        priority.take_short_turns()
        started.extend(in_a_thread(nothing))

    before, after = in_a_thread(nothing, take_turns)

    assert after == before._replace(length_ns=priority.TURN_NS)
    assert started == [after]
    assert before.length_ns != priority.TURN_NS


@pytest.mark.skipif(not HAS_TURNS, reason="before Linux 6.12 all turns are alike")
def test_the_loop_of_an_embedded_node_takes_short_turns(tmp_path: Path) -> None:
    with EmbeddedNode(tmp_path) as node:
        told: queue.Queue[Turns] = queue.Queue()
        node.call_soon(lambda _: told.put(turns()))
        assert told.get(timeout=10).length_ns == priority.TURN_NS
        assert turns().length_ns != priority.TURN_NS, "the caller's own thread is left alone"


OTHERWISE = """
import os
from ottla.runtime import priority
{before}
priority.take_short_turns()
print(os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0))
"""


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))", f"{os.SCHED_BATCH} 0"),
        ("os.setpriority(os.PRIO_PROCESS, 0, 5)", f"{os.SCHED_OTHER} 5"),
    ],
)
def test_what_somebody_has_chosen_for_it_stays(before: str, expected: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", OTHERWISE.format(before=before)], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == expected
