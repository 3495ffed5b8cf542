"""Processes that work side by side, and an interrupt while they do."""

import multiprocessing
import os
import signal
import time
from multiprocessing.context import SpawnProcess

import pytest

from ottla.cli.bench.jobs import Done, Job, Starter
from ottla.cli.bench.processes import run_together
from ottla.cli.failures import CommandError

JOB = Job(topic="a", settings={}, records=3, size_bytes=10)


def count(job: Job, starter: Starter) -> Done:
    starter.wait_for_others()
    starter.tell_progress(job.records)
    return Done(records=job.records, value_bytes=job.size_bytes, started_s=0, ended_s=1)


def count_interrupted(job: Job, starter: Starter) -> Done:
    os.kill(os.getpid(), signal.SIGINT)
    return count(job, starter)


def wait_for_ever(job: Job, starter: Starter) -> Done:
    starter.wait_for_others()
    time.sleep(3600)
    raise AssertionError


def fail(job: Job, starter: Starter) -> Done:
    raise RuntimeError("no such luck")


def nothing(_: object = None) -> None:
    pass


def test_each_tells_what_it_did() -> None:
    shown: list[int] = []

    done = run_together([(count, JOB), (count, JOB)], at_start=nothing, show=shown.append)

    assert [each.records for each in done] == [3, 3]
    assert shown == [3, 6]


def test_a_failure_is_told_and_ends_the_others() -> None:
    with pytest.raises(CommandError, match="no such luck"):
        run_together([(fail, JOB), (wait_for_ever, JOB)], at_start=nothing, show=nothing)

    assert multiprocessing.active_children() == []


def test_the_processes_do_not_hear_an_interrupt() -> None:
    (done,) = run_together([(count_interrupted, JOB)], at_start=nothing, show=nothing)

    assert done.records == 3


def test_an_interrupt_while_they_are_started_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    start = SpawnProcess.start

    def interrupted(process: SpawnProcess) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        start(process)

    monkeypatch.setattr(SpawnProcess, "start", interrupted)

    with pytest.raises(KeyboardInterrupt):
        run_together([(wait_for_ever, JOB), (wait_for_ever, JOB)], at_start=nothing, show=nothing)

    assert multiprocessing.active_children() == []


def test_a_process_that_can_not_be_started_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(process: SpawnProcess) -> None:
        raise BlockingIOError("no more processes")

    monkeypatch.setattr(SpawnProcess, "start", full)

    with pytest.raises(BlockingIOError, match="no more processes"):
        run_together([(count, JOB)], at_start=nothing, show=nothing)
