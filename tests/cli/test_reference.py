"""docs/CLI.md is what the commands say of themselves."""

from pathlib import Path

from ottla.cli.failures import MEANINGS
from ottla.cli.reference import reference

PAGE = Path(__file__).parents[2] / "docs" / "CLI.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == reference(), "run: python -m ottla.cli.reference > docs/CLI.md"


def test_it_has_every_exit_code() -> None:
    for code, meaning in MEANINGS.items():
        assert f"| {int(code)} | {meaning} |" in PAGE.read_text()


def test_options_that_are_subcommands_deep_are_there() -> None:
    assert "## ottla group reset" in PAGE.read_text()
    assert "| `--execute, --dry-run` |" in PAGE.read_text()
