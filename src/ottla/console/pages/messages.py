"""Messages of a topic: browsed, searched, from any offset or time on; and one message with all of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Self
from urllib.parse import urlencode

from nicegui import ui

from ottla.console.frame import LOADING, Page, topic_page
from ottla.console.live import Form
from ottla.console.markup import Child, Html, figure, figures, join, link, notice, panel, path, tag
from ottla.console.messages import headers, message_rows, pretty
from ottla.console.searching import Search, Seen, bounds_of, matcher, seen
from ottla.console.site import Site
from ottla.console.source import EXPECTED, sentence
from ottla.console.text import count, moment, plural, size
from ottla.http.errors import bad_request

HELD_MAX = 1_000
"""Messages of one page; then one goes on from the last."""
LIMITS = (50, 100, 250)
SINGLE_BYTES_MAX = 1024 * 1024
STARTS = (("newest", "Newest first"), ("oldest", "Oldest first"), ("offset", "From an offset"), ("time", "From a time"))
HINT = "Text, key:user-1, header:trace:af01 or $.order.id:7"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is looked for; it is the page's address too."""

    start: str = "newest"
    partition: int | None = None
    offset: int = 0
    time: str = ""
    query: str = ""
    limit: int = LIMITS[0]

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Self:
        """HttpError, with a sentence, for what can't be meant."""
        start = given.get("start") or "newest"
        if start not in dict(STARTS):
            raise bad_request(f"{start!r} is no place to start from.")
        return cls(
            start=start,
            partition=_number(given, "partition") if given.get("partition") else None,
            offset=_number(given, "offset") if given.get("offset") else 0,
            time=given.get("time", ""),
            query=given.get("query", ""),
            limit=min(_number(given, "limit") if given.get("limit") else LIMITS[0], HELD_MAX),
        )

    @property
    def since_ms(self) -> int | None:
        if self.start != "time":
            return None
        try:
            time = datetime.fromisoformat(self.time)
        except ValueError:
            raise bad_request("A time is wanted, such as 2026-11-15T14:30.") from None
        return int((time if time.tzinfo is not None else time.replace(tzinfo=UTC)).timestamp() * 1000)

    def address(self, topic: str) -> str:
        given = {
            "start": self.start,
            "partition": self.partition,
            "offset": self.offset if self.start == "offset" else None,
            "time": self.time if self.start == "time" else None,
            "query": self.query or None,
            "limit": self.limit if self.limit != LIMITS[0] else None,
        }
        named = {name: value for name, value in given.items() if value is not None}
        return f"{path('topics', topic, 'messages')}?{urlencode(named)}"


def _number(given: Mapping[str, str], name: str) -> int:
    text = given[name].replace(",", "").strip()
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise bad_request(f"{name.capitalize()} is {given[name][:40]!r}; a number is wanted.")
    return int(text)


class Browser:
    """What one tab has found so far."""

    def __init__(self, page: Page, topic: str) -> None:
        self._page = page
        self._topic = topic
        self._search: Search | None = None
        self._asked = Asked()
        self._found: list[Seen] = []
        self._shown = page.live(LOADING)
        self._shown.on_choice(self._chosen)

    async def start(self, given: Mapping[str, str]) -> None:
        await self._begin(given)
        await self._more()

    async def _begin(self, given: Mapping[str, str]) -> None:
        self._page.complain(None)
        self._shown.show(LOADING)
        self._asked = Asked.of(given)
        api = self._page.site.api
        total = await api.partition_count(self._topic)
        chosen = self._asked.partition
        if chosen is not None and chosen >= total:
            raise bad_request(f"{self._topic} has the partitions 0 to {total - 1}.")
        bounds = await bounds_of(
            api.consuming,
            self._topic,
            list(range(total)) if chosen is None else [chosen],
            since_ms=self._asked.since_ms,
            since=self._asked.offset if self._asked.start == "offset" else None,
        )
        self._search = Search(
            api.consuming,
            self._topic,
            bounds,
            backwards=self._asked.start == "newest",
            matches=matcher(self._asked.query),
        )
        self._found = []

    async def submitted(self, given: dict[str, str]) -> None:
        try:
            await self._begin(given)
            ui.navigate.history.replace(self._asked.address(self._topic))  # first: what is shown can be loaded again
            await self._more()
        except EXPECTED as error:
            self._page.complain(sentence(error))
            self._shown.show(Html(""))

    async def _chosen(self, what: str) -> None:
        if what == "more" and self._search is not None:
            try:
                await self._more()
            except EXPECTED as error:
                self._page.complain(sentence(error))

    async def _more(self) -> None:
        if self._search is not None:
            self._found += await self._search.more(min(self._asked.limit, HELD_MAX - len(self._found)))
            self._shown.show(self._rendered(self._search))

    def _rendered(self, search: Search) -> Html:
        found = len(self._found)
        title = plural(found, "message") if not self._asked.query else f"{plural(found, 'match', 'matches')}"
        return panel(
            title,
            message_rows(self._found) if found else tag("p", self._nothing(search), class_="empty"),
            tag("div", *self._foot(search), class_="foot"),
            side=f"{count(search.total)} in the range looked at, times are UTC",
        )

    def _nothing(self, search: Search) -> str:
        if not search.total:
            return "There are no messages here."
        return "Nothing matches." if search.is_over else "Nothing yet."

    def _foot(self, search: Search) -> list[Child]:
        if search.is_over:
            return [f"That is all: {count(search.looked)} looked at."]
        if len(self._found) >= HELD_MAX:
            return [f"{count(HELD_MAX)} is the most that a page holds. Read on from one of them, or search."]
        go_on = tag("button", "Go on", class_="button", data_do="more", type="button")
        return [go_on, f"{count(search.looked)} of {count(search.total)} looked at"]


def show(site: Site, topic: str, given: Mapping[str, str]) -> None:
    page = topic_page(site, topic, "Messages")
    with page.main:
        panel_of_form = ui.element("section").classes("panel")
    browser = Browser(page, topic)
    with panel_of_form:
        Form(_fields(given), browser.submitted, classes="form")
    page.run_while_open(lambda: browser.submitted(dict(given)))


def _fields(given: Mapping[str, str]) -> Html:
    start = given.get("start", "newest")
    limit = given.get("limit", str(LIMITS[0]))
    now = datetime.now(UTC).isoformat(timespec="minutes")[:16]
    return join(
        [
            field(
                "Search", tag("input", name="query", type="search", placeholder=HINT, value=given.get("query")), "grow"
            ),
            field("Show", select("start", STARTS, start)),
            field(
                "Partition",
                tag(
                    "input",
                    name="partition",
                    inputmode="numeric",
                    placeholder="All",
                    value=given.get("partition"),
                    size=5,
                ),
            ),
            field(
                "Offset",
                tag("input", name="offset", inputmode="numeric", placeholder="0", value=given.get("offset"), size=10),
            ),
            field("Time (UTC)", tag("input", name="time", type="datetime-local", value=given.get("time") or now)),
            field("At once", select("limit", [(str(each), str(each)) for each in LIMITS], limit)),
            tag("button", "Look", class_="button primary", type="submit"),
        ]
    )


def field(label: str, control: Html, kind: str = "") -> Html:
    return tag("label", tag("span", label), control, class_=f"field {kind}".strip())


def select(name: str, options: list[tuple[str, str]] | tuple[tuple[str, str], ...], chosen: str) -> Html:
    return tag("select", *(tag("option", text, value=key, selected=key == chosen) for key, text in options), name=name)


# One message


def show_one(site: Site, topic: str, partition: int, offset: int) -> None:
    page = topic_page(site, topic, "Messages")
    shown = page.live(LOADING)

    async def load() -> None:
        fetched = await site.api.consuming.fetch(topic, partition, offset, 1, 0)
        records = [record for _, record in fetched.read() if record is not None]
        if not records:
            shown.show(notice(f"There is nothing at offset {count(offset)} of {topic}-{partition}, nor after it."))
            return
        shown.show(render_one(seen(records[0], topic, partition, keep=SINGLE_BYTES_MAX), offset))

    page.run_while_open(load)


def render_one(record: Seen, asked: int) -> Html:
    is_whole = record.value is None or len(record.value) == record.value_bytes
    here = path("topics", record.topic, "messages", record.partition)
    later = link("Next", f"{here}/{record.offset + 1}", "button")
    earlier = link("Previous", f"{here}/{record.offset - 1}", "button") if record.offset else None
    return tag(
        "div",
        notice(f"Offset {count(asked)} holds no message; this is the next one.") if record.offset != asked else None,
        figures(
            figure("Partition", record.partition),
            figure("Offset", count(record.offset)),
            figure("Written (UTC)", moment(record.timestamp_ms)),
            figure("Size of the value", size(record.value_bytes)),
        ),
        panel("Key", tag("div", pretty(record.key), class_="pad")),
        panel("Headers", tag("div", headers(record.headers), class_="pad")) if record.headers else None,
        panel(
            "Value" if is_whole else f"Value, the first {size(SINGLE_BYTES_MAX)}",
            tag("div", pretty(record.value, is_whole=is_whole), class_="pad"),
            side=tag("button", "Copy", class_="quiet", data_page="copy", type="button"),
        ),
        tag("div", earlier, later, class_="actions"),
        class_="message",
    )
