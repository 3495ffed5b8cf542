"""Golden scenarios: transcripts that a person can review, and that `--rewrite-scenarios` writes anew."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parent
ARROW = " -> "
COMMAND_WIDTH = 36


def scenario_files(folder: str) -> list[Path]:
    return sorted((ROOT / folder).glob("*.txt"))


def check_scenario(path: Path, run: Callable[[str], str], request: pytest.FixtureRequest) -> None:
    """Run each command of a file, and compare what happened with what the file says.

    A line is `command -> what happened`; empty lines and those that begin with # are for the reader.
    """
    told = path.read_text().splitlines()
    happened = [_happened(line, run) for line in told]
    if request.config.getoption("--rewrite-scenarios"):
        path.write_text("\n".join(happened) + "\n")
    else:
        assert happened == told


def _happened(line: str, run: Callable[[str], str]) -> str:
    if not line.strip() or line.startswith("#"):
        return line
    command = line.split(ARROW.strip())[0].strip()
    return f"{command:<{COMMAND_WIDTH}}{ARROW}{run(command)}"
