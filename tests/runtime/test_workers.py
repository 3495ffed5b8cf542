import subprocess
import sys
import threading

import pytest

from ottla.runtime.workers import Workers


def test_results_and_errors_come_back() -> None:
    workers = Workers(1, "test")

    assert workers.submit(divmod, 7, 2).result(10) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        workers.submit(divmod, 7, 0).result(10)
    workers.shutdown()


def test_one_worker_does_one_thing_after_the_other() -> None:
    workers = Workers(1, "test")
    order: list[int] = []

    for number in range(100):
        workers.submit(order.append, number)
    workers.shutdown()

    assert order == list(range(100))


def test_several_work_at_once() -> None:
    workers = Workers(2, "test")
    meeting = threading.Barrier(2)

    arrivals = [workers.submit(meeting.wait, 10) for _ in range(2)]

    assert sorted(arrival.result(10) for arrival in arrivals) == [0, 1]
    workers.shutdown()


def test_after_the_end_nothing_is_taken() -> None:
    workers = Workers(1, "test")
    workers.shutdown()

    with pytest.raises(RuntimeError, match="shut down"):
        workers.submit(print)


def test_there_is_still_work_done_when_the_program_has_ended() -> None:
    program = """
import atexit
from ottla.runtime.workers import Workers
workers = Workers(1, "late")
atexit.register(lambda: print(workers.submit(divmod, 7, 2).result(10)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True)

    assert done.stdout == "(3, 1)\n"
