"""What a report says of the machine, and of what else it was doing."""

import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.package import form

LOOK_S = 0.3
_BUSY_SHARE = 0.25
_STAT = Path("/proc/stat")
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_IDLE, _IO_WAIT, _STEAL = 3, 4, 7
"""Columns of /proc/stat. Those after the last are counted in the first ones already."""
_MEASURED = ("src", "bench", "hatch_build.py", "pyproject.toml")
"""What figures depend on, of all that git knows."""


def others_cores() -> float:
    """How many cores are at work now. To be asked while nothing of ours is: then that is others.

    The load average would tell of ourselves too: it is the mean of a minute in which servers were warmed up.
    """
    before_s, began = _busy_s(), time.monotonic()
    time.sleep(LOOK_S)
    return (_busy_s() - before_s) / (time.monotonic() - began)


def _ticks() -> list[int]:
    return [int(column) for column in _STAT.read_text().split("\n", 1)[0].split()[1 : _STEAL + 2]]


def _busy_s() -> float:
    ticks = _ticks()
    return (sum(ticks) - ticks[_IDLE] - ticks[_IO_WAIT]) / _TICKS_PER_SECOND


class Stolen:
    """What the host takes of this machine's cores while something runs: processor time that was due and not given.

    A virtual machine is told so by its host (the column `steal`), if by anybody.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began_s, self._began = clock(), _ticks()[_STEAL]

    def share(self) -> float:
        """Of all cores, since it was made."""
        past_s = self._clock() - self._began_s
        taken_s = (_ticks()[_STEAL] - self._began) / _TICKS_PER_SECOND
        return taken_s / past_s / (os.cpu_count() or 1) if past_s > 0 else 0.0


def is_busy(others: Sequence[float], cores: int | None) -> bool:
    """Whether others took so much before the runs, in the mean, that rates and latencies tell of them too."""
    return sum(others) > _BUSY_SHARE * (cores or 1) * len(others)


def busy_warning(others: Sequence[float]) -> list[str]:
    if not is_busy(others, os.cpu_count()):
        return []
    mean = sum(others) / len(others)
    told = f"Other work took {mean:.1f} of {os.cpu_count()} cores: rates and latencies are not to be trusted."
    return ["", told]


def machine() -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "cpu": _cpu_model(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "disk": _disk(),
        "kernel": platform.release(),
        "python": _python(),
        "java": _java(),
        "commit": commit_of(Path(__file__).parent.parent),
        "ottla": form(),
    }


def _python() -> str:
    """A distribution's is built with profile-guided optimisation, others often are not: that is told apart."""
    return platform.python_version() + (" of the distribution" if sys.base_prefix == "/usr" else "")


def kind(of: dict[str, Any]) -> str:
    """Machines of one kind have the same processor and as many cores: their ratios may be compared."""
    return f"{of['cores']} x {of['cpu']}"


def _cpu_model() -> str:
    for row in Path("/proc/cpuinfo").read_text().splitlines():
        if row.startswith("model name"):
            return row.partition(":")[2].strip()
    return platform.processor()


def _disk() -> str:
    """File system and device under the repository."""
    done = _said(["df", "--output=fstype,source", str(Path(__file__).parent)])
    return " on ".join(done.splitlines()[-1].split()) if done else ""


def _java() -> str | None:
    try:
        done = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    found = re.search(r'version "([^"]+)"', done.stderr)
    return found[1] if found else None


def commit_of(tree: Path) -> str:
    """What it is at: dirty if what measures or is measured has changed since. Results of a run do not count."""
    git = ["git", "-C", str(tree)]
    commit = _said([*git, "rev-parse", "--short", "HEAD"])
    changed = _said([*git, "status", "--porcelain", "--", *_MEASURED])
    return f"{commit}-dirty" if changed else commit


def _said(command: list[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except FileNotFoundError:
        return ""
