"""The live tail of a topic."""

from __future__ import annotations

import asyncio

from nicegui import ui

from ottla.console.frame import topic_page
from ottla.console.live import Form, Live
from ottla.console.markup import Html, join, panel, tag
from ottla.console.messages import message_rows
from ottla.console.pages.messages import HINT, field
from ottla.console.searching import matcher
from ottla.console.site import Site
from ottla.console.source import EXPECTED, sentence
from ottla.console.tailing import Tail
from ottla.console.text import count

SHOW_EVERY_S = 0.5
BODY_BYTES_MAX = 1024
"""All rows are sent anew when some come."""


class TailView:
    """The tail of one tab: followed, or held still to be read."""

    def __init__(self, site: Site, topic: str) -> None:
        self._site = site
        self._topic = topic
        self._page = page = topic_page(site, topic, "Live tail")
        with page.main, ui.element("section").classes("panel"):
            Form(self._fields(), self._filtered, classes="form")
        self._shown: Live = page.live()
        self._shown.on_choice(self._chosen)
        self._query = ""
        self._changed = asyncio.Event()
        self._tail = self._new_tail()
        self._held = False
        self._restart = asyncio.Event()
        page.run_while_open(self._follow)
        page.run_while_open(self._show)

    def _fields(self) -> Html:
        search = tag("input", name="query", type="search", placeholder=HINT)
        return join(
            [field("Only messages with", search, "grow"), tag("button", "Filter", class_="button", type="submit")]
        )

    def _new_tail(self) -> Tail:
        return Tail(self._site.api, self._topic, matcher(self._query), self._changed.set)

    async def _follow(self) -> None:
        """One tail after the other: another filter is another tail."""
        while True:
            self._restart.clear()
            running = asyncio.ensure_future(self._tail.run())
            asked = asyncio.ensure_future(self._restart.wait())
            try:
                await asyncio.wait({running, asked}, return_when=asyncio.FIRST_COMPLETED)
                if running.done():
                    running.result()
            finally:
                for task in (running, asked):
                    task.cancel()
                await asyncio.gather(running, asked, return_exceptions=True)

    async def _show(self) -> None:
        while True:
            if not self._held:
                self._shown.show(self._rendered())
            await asyncio.sleep(SHOW_EVERY_S)
            await self._changed.wait()
            self._changed.clear()

    def _filtered(self, given: dict[str, str]) -> None:
        before, self._query = self._query, given.get("query", "")
        try:
            self._tail = self._new_tail()
        except EXPECTED as error:
            self._query = before
            self._page.complain(sentence(error))
            return
        self._page.complain(None)
        self._restart.set()
        self._changed.set()

    def _chosen(self, what: str) -> None:
        if what == "hold":
            self._held = not self._held
        elif what == "clear":
            self._tail.records.clear()
        self._shown.show(self._rendered())

    def _rendered(self) -> Html:
        tail = self._tail
        said = f"{count(tail.seen)} written since you look" + (
            f", {count(tail.passed_over)} passed over: too fast to show each" if tail.passed_over else ""
        )
        state = join(
            [tag("span", class_="live-dot off" if self._held else "live-dot"), "Held" if self._held else "Following"]
        )
        buttons = tag(
            "span",
            tag("button", "Go on" if self._held else "Hold", class_="button", data_do="hold", type="button"),
            " ",
            tag("button", "Clear", class_="button", data_do="clear", type="button"),
        )
        empty = tag("p", "Waiting for the next message. The newest will stand on top.", class_="empty")
        return panel(
            state,
            message_rows(tail.newest(), body_bytes_max=BODY_BYTES_MAX) if tail.records else empty,
            tag("div", said, class_="foot"),
            side=buttons,
        )


def show(site: Site, topic: str) -> None:
    TailView(site, topic)
