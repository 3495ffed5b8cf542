"""Completion of commands in a shell."""

import subprocess

import pytest

from tests.cli.command import SCRIPT, Ottla, environment


def test_the_bash_script_is_sourced_without_a_word(tmp_path_factory: pytest.TempPathFactory) -> None:
    script = tmp_path_factory.mktemp("completion") / "ottla.bash"
    script.write_text(Ottla()("completion", "bash").stdout)

    done = subprocess.run(
        ["bash", "--norc", "-c", f"set -e; source {script}; complete -p ottla"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.strip().endswith(" ottla")
    assert done.stderr == ""


def completions(*words: str, bootstrap: str | None = None) -> list[str]:
    """What bash is told for a command line that ends in the last of `words`."""
    variables = {
        "COMP_WORDS": " ".join(("ottla", *words)),
        "COMP_CWORD": str(len(words)),
        "_OTTLA_COMPLETE": "bash_complete",
    }
    done = subprocess.run(
        [SCRIPT], capture_output=True, text=True, env={**environment(bootstrap), **variables}, check=True
    )
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line]


def test_commands_subcommands_and_options_are_completed() -> None:
    assert completions("co") == ["consume", "config", "console", "completion"]
    assert completions("topic", "de") == ["delete", "delete-records", "describe"]
    assert completions("consume", "--fro") == ["--from"]
    assert completions("produce", "t", "--compression", "z") == ["zstd"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_have_their_script(shell: str) -> None:
    assert "_OTTLA_COMPLETE" in Ottla()("completion", shell).stdout


def test_names_of_topics_and_groups_are_completed(ottla: Ottla, topic: str) -> None:
    ottla("produce", topic, stdin="x\n")
    ottla("consume", topic, "--group", f"{topic}-readers")

    assert completions("consume", topic[:-1], bootstrap=ottla.bootstrap).count(topic) == 1
    assert completions("topic", "describe", topic, bootstrap=ottla.bootstrap) == [topic]
    assert completions("group", "describe", f"{topic}-", bootstrap=ottla.bootstrap) == [f"{topic}-readers"]


def test_a_broker_that_is_not_there_completes_nothing() -> None:
    assert completions("topic", "describe", "", bootstrap="127.0.0.1:1") == []
