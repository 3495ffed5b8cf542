"""A real browser: the system's Chromium, driven by Playwright."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.programs import require

DESKTOP = 1280
PHONE = 390
PATIENCE_MS = 60_000
Theme = Literal["light", "dark"]


@contextmanager
def started_browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=require("chromium"), args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


class Visitor:
    """Somebody who looks at one console. `problems` is what the browser complained about."""

    def __init__(self, browser: Browser, url: str) -> None:
        self.url = url
        self.problems: list[str] = []
        self._browser = browser
        self._contexts: dict[tuple[int, Theme, float], BrowserContext] = {}
        """One for each kind of screen: a browser that has been here has most of a page already."""
        expect.set_options(timeout=PATIENCE_MS)

    @contextmanager
    def at(self, path: str, *, width: int = DESKTOP, theme: Theme = "light", scale: float = 1) -> Iterator[Page]:
        page = self._context(width, theme, scale).new_page()
        page.on("console", lambda said: self.problems.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("request", lambda request: self._expect_own(request.url))
        try:
            page.goto(self.url + path)
            yield page
        finally:
            page.close()

    def _context(self, width: int, theme: Theme, scale: float) -> BrowserContext:
        if (width, theme, scale) not in self._contexts:
            context = self._contexts[width, theme, scale] = self._browser.new_context(
                viewport={"width": width, "height": 820}, color_scheme=theme, device_scale_factor=scale
            )
            context.set_default_timeout(PATIENCE_MS)
        return self._contexts[width, theme, scale]

    def _expect_own(self, url: str) -> None:
        """Nothing comes from anywhere else."""
        if urlsplit(url).scheme in ("http", "https", "ws") and urlsplit(url).netloc != urlsplit(self.url).netloc:
            self.problems.append(f"asked {url}")


def row(page: Page, name: str) -> list[str]:
    """The cells of the row of a table with this header, once it is there."""
    found = page.locator("tbody tr").filter(has=page.get_by_role("rowheader", name=name, exact=True))
    expect(found).to_have_count(1)
    return [cell.strip() for cell in found.locator("th, td").all_inner_texts()]


def figure(page: Page, label: str) -> str:
    found = page.locator(".figure").filter(has=page.locator("dt", has_text=label)).locator(".value")
    expect(found).to_be_visible()
    return found.inner_text()
