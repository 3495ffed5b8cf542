from ottla.config.docs import field_docs
from ottla.config.names import settings


def test_every_setting_says_what_it_is_for() -> None:
    undocumented = [
        path
        for path, setting in settings().items()
        if len(field_docs(setting.owner).get(setting.field.name, "").split()) < 3
    ]
    assert undocumented == []


class Example:
    first: int = 1
    """What the first
    is for."""
    second: int = 2
    third: int = 3
    """Third."""


def test_the_text_below_a_field_is_its_documentation() -> None:
    assert field_docs(Example) == {"first": "What the first is for.", "third": "Third."}
