"""What a report says of the machine, and of what else it was doing."""

import os
import platform
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def load_warning(loads: Sequence[float]) -> list[str]:
    highest, cores = max(loads, default=0.0), os.cpu_count() or 1
    if highest <= 2 * cores:
        return []
    return [
        "",
        f"The load average was up to {highest:.1f} on {cores} cores: rates and latencies are not to be trusted.",
    ]


def machine() -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "cpu": _cpu_model(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "disk": _disk(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "java": _java(),
        "commit": _commit(),
    }


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


def _commit() -> str:
    return _said(["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"])


def _said(command: list[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except FileNotFoundError:
        return ""
