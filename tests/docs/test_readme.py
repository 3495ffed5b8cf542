"""What the README shows is run here as a newcomer runs it: `make run` in one process, the rest beside it."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.interop.node_process import accepts_connections, process_wait
from tests.ports import free_ports

REPOSITORY = Path(__file__).parents[2]
README = (REPOSITORY / "README.md").read_text()
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NODES = 3
NEEDED = ("Makefile", "pyproject.toml", "README.md", "src", ".venv")


def blocks(language: str) -> list[str]:
    return [body for found, body in BLOCK.findall(README) if found == language]


@dataclass(frozen=True, slots=True, kw_only=True)
class Newcomer:
    """Someone in a fresh copy of the repository, whose nodes run on ports of their own."""

    directory: Path
    port: int
    cluster_port: int

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("OTTLA_", "MAKE"))}
        ports = {"OTTLA_PORT": str(self.port), "OTTLA_CLUSTER_PORT": str(self.cluster_port)}
        return {**kept, **ports, "OTTLA_BOOTSTRAP": f"127.0.0.1:{self.port}"}

    def runs(self, *command: str) -> str:
        """The output, errors included, of a command that must succeed."""
        done = subprocess.run(
            command, cwd=self.directory, env=self.environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, (command, done)
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Newcomer]:
    directory = tmp_path_factory.mktemp("repository")
    for name in NEEDED:
        (directory / name).symlink_to(REPOSITORY / name)
    visitor = Newcomer(directory=directory, port=free_ports(NODES), cluster_port=free_ports(NODES))
    command = ["make", "--old-file", ".venv/bin/.installed", *make_targets()]
    with open(directory / "make.log", "wb") as log:
        process = subprocess.Popen(
            command, cwd=directory, env=visitor.environment, stdout=log, stderr=log, start_new_session=True
        )
    while not all(accepts_connections(visitor.port + at) for at in range(NODES)):
        assert process.poll() is None, (directory / "make.log").read_text()
        process_wait(process, 0.02)
    yield visitor
    os.killpg(process.pid, signal.SIGINT)
    process.wait(30)
    assert not accepts_connections(visitor.port)


def make_targets() -> list[str]:
    [block] = blocks("sh")
    [line] = block.splitlines()
    tool, *targets = line.split()
    assert tool == "make"
    return targets


def test_there_is_no_block_that_nobody_runs() -> None:
    assert {language for language, _ in BLOCK.findall(README)} == {"sh", "console", "python"}


def test_the_commands_print_what_the_readme_says(newcomer: Newcomer) -> None:
    for block in blocks("console"):
        shown = re.findall(r"^\$ (.+)\n((?:(?!\$ ).+\n)*)", block, re.MULTILINE)
        assert shown
        for command, output in shown:
            assert newcomer.runs("bash", "-c", command) == output


def test_data_is_where_the_readme_says(newcomer: Newcomer) -> None:
    newcomer.runs("bash", "-c", "echo x | .venv/bin/ottla produce anything")

    assert all((newcomer.directory / "data" / f"node-{number}" / "anything-0").is_dir() for number in (1, 2, 3))


@pytest.mark.parametrize("number", range(len(blocks("python"))))
def test_the_python_runs(newcomer: Newcomer, number: int) -> None:
    program = blocks("python")[number].replace("localhost:9092", f"127.0.0.1:{newcomer.port}")

    assert newcomer.runs(".venv/bin/python", "-W", "error", "-c", program).strip()


def test_commands_named_in_sentences_exist(newcomer: Newcomer) -> None:
    named = set(re.findall(r"`(?:\.venv/bin/)?ottla ([a-z]+)", README))
    assert {"consume", "bench"} <= named
    for name in named:
        newcomer.runs(".venv/bin/ottla", name, "--help")


def test_targets_of_make_that_are_named_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
    texts = [README, (REPOSITORY / "CONTRIBUTING.md").read_text()]

    assert {name for text in texts for name in re.findall(r"\bmake ([a-z][a-z-]+)[`\s]", text)} <= targets | {"it"}
