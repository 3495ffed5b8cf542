from pathlib import Path

import pytest
import yaml

from ottla.config import BrokerConfig, load_config
from ottla.config.names import settings
from ottla.config.render import files, render_markdown, render_yaml

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("path", "text"), list(files()))
def test_what_is_committed_is_what_the_settings_say(path: str, text: str) -> None:
    assert (ROOT / path).read_text(encoding="utf-8") == text, "run: python -m ottla.config.render"


def test_the_file_holds_every_setting_at_its_default(tmp_path: Path) -> None:
    path = tmp_path / "broker.yaml"
    path.write_text(render_yaml())
    assert load_config(str(path)) == BrokerConfig()

    document = yaml.safe_load(render_yaml())
    for name in settings():
        section, _, key = name.rpartition(".")
        assert key in (document[section] if section else document)


def test_the_page_has_a_row_for_every_setting() -> None:
    page = render_markdown()
    assert all(f"| `{path}` |" in page for path in settings())
