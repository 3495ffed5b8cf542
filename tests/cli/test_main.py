"""What all commands have in common: help, usage errors, exit codes, and what is loaded."""

import subprocess
import sys

import pytest

from ottla.cli.failures import MEANINGS
from ottla.cli.main import COMMANDS
from tests.cli.command import Ottla

NOBODY = "127.0.0.1:1"
"""Nothing listens there: the port is reserved, and binding it takes root."""


def test_help_lists_every_command_and_every_exit_code() -> None:
    text = Ottla()("--help").stdout

    for name, meaning in COMMANDS.items():
        assert f"  {name} " in text
        assert meaning in text
    for code, meaning in MEANINGS.items():
        assert f"  {int(code)} " in text
        assert meaning in text


def test_no_arguments_print_the_help() -> None:
    assert Ottla()().stdout == Ottla()("--help").stdout


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_has_help_that_says_what_its_line_says(name: str) -> None:
    finished = Ottla()(name, "--help")

    assert finished.stdout.startswith(f"Usage: ottla {name}")
    assert finished.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nonsense"], "ottla: No such command 'nonsense'. See `ottla --help`."),
        (["version", "--jso"], "ottla: No such option '--jso'. Did you mean '--json'? See `ottla version --help`."),
        (["topic", "create"], "ottla: Missing argument 'TOPIC…'. See `ottla topic create --help`."),
        (["topic", "list", "--bootstrap", "nowhere"], "ottla: --bootstrap 'nowhere' is not HOST:PORT."),
    ],
)  # fmt: skip
def test_wrong_usage_is_one_line_and_exit_code_2(arguments: list[str], sentence: str) -> None:
    finished = Ottla()(*arguments, code=2)

    assert finished.stderr == sentence + "\n"
    assert finished.stdout == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ["topic", "list"],
        ["produce", "t"],
        ["consume", "t"],
        ["group", "list"],
        ["config", "list", "topic", "t"],
        ["quota", "get"],
        ["cluster", "info"],
        ["bench"],
    ],
)
def test_a_broker_that_is_not_there_is_told_at_once(arguments: list[str]) -> None:
    finished = Ottla(NOBODY)(*arguments, code=6)

    assert finished.stderr.startswith(f"ottla: No broker answered: {NOBODY}: Connection refused.")
    assert finished.stderr.count("\n") == 1
    assert finished.stdout == ""


def test_the_second_broker_is_tried_when_the_first_is_down(ottla: Ottla) -> None:
    assert Ottla(f"{NOBODY},{ottla.bootstrap}")("cluster", "info", "--json").json["brokers"]


def loaded_by(statement: str) -> set[str]:
    program = f"import sys; {statement}; print(*(name.partition('.')[0] for name in sys.modules))"
    return set(
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    )


def test_start_loads_no_client_and_nothing_that_draws() -> None:
    loaded = loaded_by("import ottla.cli.main, ottla.cli.start, ottla.runtime.main")

    assert "ottla" in loaded
    assert loaded.isdisjoint({"rich", "confluent_kafka", "yaml", "multiprocessing"})


def test_help_loads_no_command() -> None:
    program = "import sys; from ottla.cli.main import main; main(['--help']); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert not {f"ottla.cli.{name}" for name in COMMANDS} & set(done.stderr.split())
