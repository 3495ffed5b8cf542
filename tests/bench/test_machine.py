"""What others do on the machine."""

import os
import subprocess
import sys

import pytest
from bench.machine import busy_warning, is_busy, others_cores

CORES = os.cpu_count() or 1


def test_a_process_that_works_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """All cores are taken, so that other work of the machine changes nothing."""
    monkeypatch.setattr("bench.machine.LOOK_S", 0.1)
    busy = [
        subprocess.Popen([sys.executable, "-c", "print(flush=True)\nwhile True: pass"], stdout=subprocess.PIPE)
        for _ in range(CORES)
    ]
    try:
        for process in busy:
            assert process.stdout is not None
            process.stdout.readline()
        assert others_cores() > 0.5 * CORES
    finally:
        for process in busy:
            process.kill()
            process.communicate()


def test_a_machine_is_busy_when_others_take_a_quarter_of_it_in_the_mean() -> None:
    assert is_busy([0.6, 0.6], 2)
    assert not is_busy([0.9, 0.0], 2)
    assert not is_busy([], 2)
    assert busy_warning([0.0]) == []
    assert f"Other work took {CORES}.0 of {CORES} cores" in busy_warning([float(CORES)])[1]
