"""What others do on the machine."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from bench.machine import Stolen, busy_warning, commit_of, is_busy, others_cores

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


def test_what_the_host_takes_is_told_as_a_share_of_all_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stat = tmp_path / "stat"
    monkeypatch.setattr("bench.machine._STAT", stat)
    monkeypatch.setattr("bench.machine._TICKS_PER_SECOND", 100)
    now_s = 10.0
    stat.write_text("cpu  900 0 300 5000 20 0 7 40 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n")
    stolen = Stolen(clock=lambda: now_s)
    assert stolen.share() == 0.0

    stat.write_text(f"cpu  950 0 310 5100 21 0 7 {40 + 100 * CORES} 0 0\n")
    now_s = 14.0

    assert stolen.share() == 0.25


def test_a_machine_is_busy_when_others_take_a_quarter_of_it_in_the_mean() -> None:
    assert is_busy([0.6, 0.6], 2)
    assert not is_busy([0.9, 0.0], 2)
    assert not is_busy([], 2)
    assert busy_warning([0.0]) == []
    assert f"Other work took {CORES}.0 of {CORES} cores" in busy_warning([float(CORES)])[1]


def test_a_commit_is_dirty_by_what_figures_depend_on_and_not_by_results(tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        settings = ("-c", "user.name=a", "-c", "user.email=a@b.example")
        command = ["git", "-C", str(tmp_path), *settings, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    for name in ("src", "docs"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a").write_text("1")
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "--message", "one")
    commit = git("rev-parse", "--short", "HEAD").strip()

    (tmp_path / "docs" / "a").write_text("2")
    assert commit_of(tmp_path) == commit

    (tmp_path / "src" / "b").write_text("2")
    assert commit_of(tmp_path) == f"{commit}-dirty"
