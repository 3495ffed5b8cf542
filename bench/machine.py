"""What a report says of the machine, and of what else it was doing."""

import os
import platform
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
        "kernel": platform.release(),
        "python": platform.python_version(),
        "commit": _commit(),
    }


def _cpu_model() -> str:
    for row in Path("/proc/cpuinfo").read_text().splitlines():
        if row.startswith("model name"):
            return row.partition(":")[2].strip()
    return platform.processor()


def _commit() -> str:
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
