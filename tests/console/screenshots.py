"""`make screenshots`: docs/images, from a cluster in which something goes on."""

import tempfile
from pathlib import Path

from playwright.sync_api import FloatRect, Page, expect

from tests.console.browser import DESKTOP, PHONE, Theme, Visitor, started_browser
from tests.console.rig import ConsoleProcess, RackedCluster, Story

IMAGES = Path(__file__).parents[2] / "docs" / "images"
LOOK_ON_MS = 45_000
"""How long a group is watched, for its chart."""
PICTURES: tuple[tuple[str, str, Theme, int, str], ...] = (
    ("cluster-light", "/", "light", DESKTOP, ".broker"),
    ("messages-light", "/topics/orders/messages", "light", DESKTOP, ".msg"),
    ("messages-phone", "/topics/orders/messages?query=$.city:Berlin", "dark", PHONE, ".msg"),
)


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as kept, RackedCluster(Path(kept)) as cluster:
        story = Story(cluster.bootstrap)
        story.tell()
        story.keep_writing()
        with ConsoleProcess(Path(kept), cluster.bootstrap, "console", "--port", "0") as console:
            take(console.url)
        story.end()


def take(url: str) -> None:
    with started_browser() as browser:
        visitor = Visitor(browser, url)
        with visitor.at("/groups/shipping", theme="dark") as page:
            page.wait_for_timeout(LOOK_ON_MS)
            expect(page.locator("svg.chart")).to_have_count(2)
            keep(page, "group-dark")
        for name, path, theme, width, shown in PICTURES:
            with visitor.at(path, width=width, theme=theme, scale=2 if width == PHONE else 1) as page:
                expect(page.locator(shown).first).to_be_visible()
                if "messages-light" in name:
                    page.locator(".msg summary").nth(1).click()
                if shown == ".broker":
                    expect(page.locator(".figures")).to_contain_text("/s")
                keep(page, name)


def keep(page: Page, name: str) -> None:
    """As much of it as there is."""
    end = page.locator(".main").evaluate("main => main.lastElementChild.getBoundingClientRect().bottom")
    size = page.viewport_size or {"width": DESKTOP, "height": 0}
    clip = FloatRect(x=0, y=0, width=size["width"], height=min(size["height"], end + 24))
    page.screenshot(path=IMAGES / f"{name}.png", animations="disabled", clip=clip)


if __name__ == "__main__":
    main()
