"""Commands that pages name: they exist with the options that they are given; and those that can be run, are."""

import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from ottla.cli.main import root
from tests.cli.command import Ottla, environment
from tests.deploy.pods import free_network
from tests.interop.node_process import process_wait

REPOSITORY = Path(__file__).parents[2]
PAGES = sorted([*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/**/*.md")])
INLINE = re.compile(r"`((?:\.venv/bin/)?ottla [^`]+)`")
LINE = re.compile(r"^(?: {4}|\$ )?((?:\.venv/bin/)?ottla [a-z].*)$", re.MULTILINE)


def commands() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        text = page.read_text().replace("\\\n", " ")
        name = str(page.relative_to(REPOSITORY))
        for found in (*INLINE.findall(text), *LINE.findall(text)):
            for part in re.split(r"\s*(?:\||&&|;|>|<|\s#)\s*", found.replace("\n", " ")):
                if re.match(r"(?:\.venv/bin/)?ottla [a-z]", part):
                    yield name, part


@pytest.mark.parametrize("page", sorted({page for page, _ in commands()}))
def test_commands_exist_and_take_the_options_that_they_are_given(page: str) -> None:
    for _, command in (each for each in commands() if each[0] == page):
        _check(command)


def _check(command: str) -> None:
    _, *words = shlex.split(command.replace("…", " ").replace("'", ""))
    words = [word for word in words if word != "\\"]
    found: click.Command = root
    context = click.Context(root)
    while isinstance(found, click.Group) and words and not words[0].startswith("-"):
        name = words.pop(0).strip(",.:")
        inner = found.get_command(context, name)
        if inner is None:
            assert found is not root, f"there is no command {name}: {command}"
            assert re.fullmatch(r"[A-Z\[].*|\W*", name) or name in found.commands, f"there is no {name}: {command}"
            return
        found = inner
    known = {option for parameter in found.params for option in (*parameter.opts, *parameter.secondary_opts)}
    given = {word.split("=")[0] for word in words if re.match(r"--?[a-z]", word)}
    assert given <= known | {"--help"}, f"{command}: {given - known}"


def test_there_are_many_of_them() -> None:
    assert len(list(commands())) > 80


@pytest.mark.parametrize("wrong", ["ottla fly", "ottla topic paint orders", "ottla topic create orders --colour red"])
def test_one_that_is_wrong_would_be_found(wrong: str) -> None:
    with pytest.raises(AssertionError):
        _check(wrong)


def test_files_of_the_deployment_that_are_named_are_there() -> None:
    named = {path for page in PAGES for path in re.findall(r"\bdeploy/[\w./-]*\w", page.read_text())}

    assert {path for path in named if not (REPOSITORY / path).exists()} == set()
    assert len(named) > 5


def test_the_cluster_of_the_readme_is_founded_by_its_three_commands(tmp_path: Path) -> None:
    """On three machines, which are three addresses of this one."""
    found = re.findall(r"^ {4}ottla (start .*)$", (REPOSITORY / "README.md").read_text(), re.MULTILINE)
    assert len(found) == 3
    network = free_network()
    machines: list[subprocess.Popen[bytes]] = []
    try:
        for number, command in enumerate(found, 1):
            directory = tmp_path / f"machine-{number}"
            directory.mkdir()
            started = [str(Path(sys.executable).with_name("ottla")), *shlex.split(command.replace("10.0.0", network))]
            with open(directory / "log", "wb") as log:
                machines.append(subprocess.Popen(started, cwd=directory, env=environment(None), stdout=log, stderr=log))
        ottla = Ottla(",".join(f"{network}.{number}:9092" for number in (1, 2, 3)))
        while not all(_answers(f"{network}.{number}") for number in (1, 2, 3)):
            assert all(machine.poll() is None for machine in machines), (tmp_path / "machine-1" / "log").read_text()
            process_wait(machines[0], 0.05)
        status = ottla("cluster", "status", "--json").json
    finally:
        for machine in machines:
            machine.send_signal(signal.SIGTERM)
        ended = [machine.wait(60) for machine in machines]
    assert [(node["id"], node["rack"]) for node in status["nodes"]] == [(1, "a"), (2, "b"), (3, "c")]
    assert ended == [0, 0, 0]


def _answers(host: str) -> bool:
    try:
        socket.create_connection((host, 9092), timeout=1).close()
    except OSError:
        return False
    return True


def test_the_simulation_of_the_page_runs() -> None:
    """For less of its time: others simulate at length."""
    [program] = re.findall(r"^```python\n(.*?)^```$", (REPOSITORY / "docs" / "SIMULATION.md").read_text(), re.M | re.S)

    shorter = program.replace("virtual_seconds=30", "virtual_seconds=3")
    assert shorter != program
    subprocess.run([sys.executable, "-c", shorter], check=True, timeout=240)
