"""A JVM is warm when those of its threads that compile have come to rest."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from bench.jit import Compilers
from bench.processes import compiler_cpu_s

from bench import jit
from tests.interop.waiting import eventually

BUSY = """
import ctypes, threading, time
def work(name):
    ctypes.CDLL(None).prctl(15, name, 0, 0, 0)
    while name: pass
threading.Thread(target=work, args=({name!r},)).start()
time.sleep(600)
"""


@pytest.fixture
def busy() -> Iterator[subprocess.Popen[bytes]]:
    """A process in which a thread of a compiler's name, and the one that started it, are there."""
    process = subprocess.Popen([sys.executable, "-c", BUSY.format(name=b"C2 CompilerThread0")])
    yield process
    process.kill()
    process.wait()


def test_time_in_threads_that_compile_is_told(busy: subprocess.Popen[bytes]) -> None:
    eventually(lambda: compiler_cpu_s(busy.pid) > 0.1)


def test_a_process_that_compiles_nothing_has_none() -> None:
    sum(range(3_000_000))

    assert compiler_cpu_s(os.getpid()) == 0


class Looked:
    """The compilers of two processes, on a clock and with times that a test sets."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now_s = 100.0
        self.spent_s = {1: 10.0, 2: 0.0}
        patch.setattr(jit, "compiler_cpu_s", lambda pid: self.spent_s[pid])
        self.compilers = Compilers([1, 2], clock=lambda: self.now_s)


def test_the_share_is_that_since_the_last_look(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = Looked(monkeypatch)

    looked.now_s, looked.spent_s = 102.0, {1: 11.0, 2: 0.5}
    assert looked.compilers.share() == 0.75
    looked.now_s, looked.spent_s = 104.0, {1: 11.1, 2: 0.5}
    assert looked.compilers.share() == pytest.approx(0.05)


def test_a_compiler_that_has_ended_takes_nothing_from_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = Looked(monkeypatch)

    looked.now_s, looked.spent_s = 101.0, {1: 4.0, 2: 0.5}

    assert looked.compilers.share() == 0.5
