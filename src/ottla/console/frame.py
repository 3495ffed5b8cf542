"""What surrounds every page: the bar, the places to go, and the life of what a page has running."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from nicegui import Client, ui

from ottla.console.live import Live
from ottla.console.markup import Child, Html, join, link, notice, path, tag
from ottla.console.shared import Shared
from ottla.console.site import Site
from ottla.console.source import EXPECTED, sentence

T = TypeVar("T")
log = logging.getLogger(__name__)

PLACES = (
    ("Cluster", "/", "c"),
    ("Topics", "/topics", "t"),
    ("Groups", "/groups", "g"),
    ("Transactions", "/transactions", "x"),
    ("Dead letters", "/letters", "d"),
    ("Balance", "/plan", "b"),
)
SHORTCUTS = (
    *((f"g {key}", f"Go to {name.lower()}") for name, _, key in PLACES),
    ("/", "Search or filter"),
    ("j  k", "Next and previous row"),
    ("d", "Dark or light"),
    ("Ctrl Enter", "Send the form"),
    ("Esc", "Leave a field"),
    ("?", "This list"),
)
LOGO = tag(
    "svg",
    tag("path", d="M4 6h11M4 12h16M4 18h8", stroke="currentColor", stroke_width="2.4", stroke_linecap="round"),
    tag("circle", cx="19", cy="6", r="1.9", fill="currentColor"),
    tag("circle", cx="16", cy="18", r="1.9", fill="currentColor"),
    viewBox="0 0 24 24",
    fill="none",
    aria_hidden="true",
)
LOADING = tag("p", "Asking the cluster …", class_="empty")


class Page:
    """One page in one tab. What it has running ends when the tab is closed, and goes on when it comes back."""

    def __init__(self, site: Site, section: str, title: str, *, head: Child = None) -> None:
        self.site = site
        self.client: Client = ui.context.client
        self._starts: list[Callable[[], Callable[[], None]]] = []
        self._ends: list[Callable[[], None]] = []
        self._is_open = False
        ui.page_title(f"{title} · Ottla")
        Live(_bar(site.bootstrap), classes="frame")
        Live(_rail(section), classes="frame")
        self.main = ui.element("div").classes("main").props('tabindex="-1"')  # inside of Quasar's <main>
        with self.main:
            Live(tag("div", tag("h1", title) if head is None else head, class_="head"))
            self._problem = Live()
        self.client.on_connect(self._opened)
        self.client.on_disconnect(self._left)
        self.client.on_delete(self._closed)

    # What is shown

    def live(self, html: Html | None = None, *, classes: str = "") -> Live:
        with self.main:
            return Live(html, classes=classes)

    def complain(self, text: str | None) -> None:
        """Above everything else, until it is taken back with None."""
        self._problem.show(notice(text, "bad") if text else Html(""))

    def watch(self, shared: Shared[T], render: Callable[[T], Html]) -> Live:
        """Something that is looked at again and again, for as long as the page is open."""
        shown = self.live(LOADING)

        def fresh() -> None:
            self.complain(shared.problem)
            if shared.latest is not None:
                shown.show(render(shared.latest))
            elif shared.problem is not None:
                shown.show(Html(""))

        self.while_open(lambda: shared.subscribe(fresh))
        return shown

    # What is running

    def while_open(self, start: Callable[[], Callable[[], None]]) -> None:
        """`start` is called when the tab is there, and what it returns when it is gone."""
        self._starts.append(start)

    def run_while_open(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.while_open(lambda: self.run(work()))

    def run(self, work: Coroutine[Any, Any, None]) -> Callable[[], None]:
        """In the background; what goes wrong is shown. The result ends it."""
        task = asyncio.get_running_loop().create_task(self._told(work))

        def end() -> None:
            task.cancel()

        return end

    async def _told(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            with self.client:
                await work
        except EXPECTED as error:
            self.complain(sentence(error))
        except Exception as error:
            log.exception("a page failed")
            self.complain(f"The console failed: {sentence(error)}")

    def _opened(self) -> None:
        if not self._is_open:
            self._is_open = True
            self._ends += [start() for start in self._starts]

    def _left(self) -> None:
        """A connection that comes back within seconds has been replaced already."""
        if not self.client.has_socket_connection:
            self._closed()

    def _closed(self) -> None:
        self._is_open = False
        ends, self._ends = self._ends, []
        for end in ends:
            end()


def _bar(bootstrap: str) -> Html:
    return join(
        [
            tag("a", "Skip to the page", href="#", class_="skip", data_page="skip"),
            tag(
                "header",
                tag("a", LOGO, "Ottla", href="/", class_="brand"),
                tag("span", _short(bootstrap), class_="where", title=bootstrap),
                tag("span", class_="push"),
                tag("button", "Keys ", tag("kbd", "?"), class_="quiet hint", data_page="help", type="button"),
                tag("button", "Theme ", tag("kbd", "d"), class_="quiet", data_page="theme", type="button"),
                class_="top",
            ),
            tag(
                "dialog",
                tag("h2", "Keys"),
                tag("dl", *(join([tag("dt", _keys(keys)), tag("dd", does)]) for keys, does in SHORTCUTS)),
                tag("button", "Close", class_="button", data_page="help", type="button"),
                class_="help",
                aria_label="Keys",
            ),
        ]
    )


def _short(bootstrap: str) -> str:
    first, *others = bootstrap.split(",")
    return f"{first} +{len(others)}" if others else first


def _keys(keys: str) -> Html:
    return join((tag("kbd", key) for key in keys.split()), " ")


def _rail(section: str) -> Html:
    return tag(
        "nav",
        *(
            tag(
                "a",
                name,
                tag("kbd", f"g {key}"),
                href=href,
                aria_current="page" if name == section else None,
            )
            for name, href, key in PLACES
        ),
        class_="rail",
        aria_label="Places",
    )


def topic_head(topic: str, facts: Child = None) -> Html:
    crumb = join([link("Topics", "/topics"), tag("span", " / ", class_="dim")])
    return join([tag("h1", tag("span", crumb, class_="crumb"), topic), tag("span", facts, class_="facts")])


TOPIC_TABS = (
    ("Partitions", ""),
    ("Messages", "messages"),
    ("Live tail", "tail"),
    ("Produce", "produce"),
    ("Configs", "configs"),
)


def topic_page(site: Site, topic: str, tab: str) -> Page:
    page = Page(site, "Topics", f"{topic} · {tab}" if tab != TOPIC_TABS[0][0] else topic, head=topic_head(topic))
    page.live(tabs([(name, path("topics", topic, *([part] if part else []))) for name, part in TOPIC_TABS], tab))
    return page


def tabs(each: Sequence[tuple[str, str]], current: str) -> Html:
    return tag(
        "nav",
        *(link_to(name, href, is_current=name == current) for name, href in each),
        class_="tabs",
        aria_label="About this topic",
    )


def link_to(name: str, href: str, *, is_current: bool) -> Html:
    return tag("a", name, href=href, aria_current="page" if is_current else None)
