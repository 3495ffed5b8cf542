"""Clients of other languages, as their package registries have them (`make interop`; each needs its own tools)."""

import shutil
import subprocess
from pathlib import Path

import pytest
from bench.apache_kafka import HOME

pytestmark = pytest.mark.interop
FOREIGN = Path(__file__).parent / "foreign"


def _run(command: list[str], directory: Path) -> str:
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def _workshop(name: str, program: str) -> Path:
    """A directory outside the sources, where packages may be installed, with a copy of the program."""
    if shutil.which(program) is None:
        pytest.skip(f"needs {program}")
    directory = HOME / name
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def test_kafkajs_administers_produces_and_consumes(bootstrap: str, unique: str) -> None:
    directory = _workshop("kafkajs", "npm")
    shutil.copy(FOREIGN / "kafkajs_client.js", directory)
    if not (directory / "node_modules" / "kafkajs").exists():
        (directory / "package.json").write_text('{"private": true}')
        _run(["npm", "install", "--silent", "kafkajs@2"], directory)

    assert _run(["node", "kafkajs_client.js", bootstrap, unique], directory).strip() == "OK"


def test_franz_go_administers_produces_and_consumes(bootstrap: str, unique: str) -> None:
    directory = _workshop("franz", "go")
    shutil.copy(FOREIGN / "franz_client.go", directory)
    if not (directory / "franz").exists():
        (directory / "go.mod").write_text("module interop\n\ngo 1.21\n")
        _run(["go", "mod", "tidy"], directory)
        _run(["go", "build", "-o", "franz", "."], directory)

    assert _run([str(directory / "franz"), bootstrap, unique], directory).strip() == "OK"
