"""Links lead somewhere, and every decision is listed."""

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PAGES = sorted([*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/**/*.md")])
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
DECISIONS = REPOSITORY / "docs" / "decisions"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_links_lead_somewhere(page: Path) -> None:
    targets = [target for target in LINK.findall(page.read_text()) if "://" not in target]

    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_every_decision_is_in_the_list_under_its_title() -> None:
    listed = re.findall(r"^\| \[(\d{4})\]\((\S+)\) \| (.+) \|$", (DECISIONS / "README.md").read_text(), re.MULTILINE)
    there = [
        (file.name[:4], file.name, file.read_text().splitlines()[0].removeprefix(f"# {file.name[:4]} "))
        for file in sorted(DECISIONS.glob("[0-9]*.md"))
    ]

    assert listed == there


def test_no_two_decisions_have_the_same_number() -> None:
    numbers = [file.name[:4] for file in DECISIONS.glob("[0-9]*.md")]

    assert len(numbers) == len(set(numbers))
