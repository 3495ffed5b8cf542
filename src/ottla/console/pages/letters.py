"""Dead letters: records that a stream could not process, why, and sending them back."""

from __future__ import annotations

from ottla.console.frame import LOADING, Page
from ottla.console.letters import COUNTED_MAX, SHOWN_MAX, LetterTopic
from ottla.console.live import Live
from ottla.console.markup import Child, Column, Html, badge, join, link, notice, panel, path, table, tag
from ottla.console.messages import headers, pretty, preview
from ottla.console.searching import Seen
from ottla.console.site import Site
from ottla.console.source import EXPECTED, sentence
from ottla.console.text import count, moment, plural
from ottla.stream.dead_letter import SUFFIX, DeadLetter

COLUMNS = (Column("Topic"), Column("Waiting", number=True), Column("Held", number=True, wide=True))
ERROR_MAX = 160


def show_all(site: Site) -> None:
    page = Page(site, "Dead letters", "Dead letters")
    shown = page.live(LOADING)

    async def load() -> None:
        shown.show(render_all(await site.letters.topics()))

    page.run_while_open(load)


def render_all(topics: list[LetterTopic]) -> Html:
    rows: list[list[Child]] = [
        [
            link(each.topic, path("letters", each.topic)),
            badge(_counted(each.waiting), "warn") if each.waiting else "0",
            count(each.total),
        ]
        for each in topics
    ]
    empty = f"No topic has dead letters: their names end with {SUFFIX}."
    return panel("Topics with dead letters", table(COLUMNS, rows, label="Topics with dead letters", empty=empty))


def _counted(number: int) -> str:
    return f"{count(COUNTED_MAX)} or more" if number >= COUNTED_MAX else count(number)


class LettersView:
    """The letters of one topic in one tab. Sending them back takes two presses."""

    def __init__(self, site: Site, topic: str) -> None:
        self._site = site
        self._topic = topic
        crumb = tag("span", link("Dead letters", "/letters"), tag("span", " / ", class_="dim"), class_="crumb")
        self._page = Page(site, "Dead letters", topic, head=tag("h1", crumb, topic))
        self._said: Live = self._page.live()
        self._shown: Live = self._page.live(LOADING)
        self._shown.on_choice(self._chosen)
        self._found: list[tuple[Seen, DeadLetter]] = []
        self._is_asked = False
        self._is_busy = False
        self._page.run_while_open(self._load)

    async def _load(self) -> None:
        self._found = await self._site.letters.waiting(self._topic)
        self._show()

    def _show(self) -> None:
        self._shown.show(render(self._topic, self._found, is_asked=self._is_asked, is_busy=self._is_busy))

    async def _chosen(self, what: str) -> None:
        if what in ("ask", "no"):
            self._is_asked = what == "ask"
            self._show()
        elif what == "redrive" and not self._is_busy:
            await self._redrive()

    async def _redrive(self) -> None:
        self._is_asked, self._is_busy = False, True
        self._said.show(notice("Sending them back …"))
        self._show()
        try:
            done = await self._site.letters.redrive(self._topic)
        except EXPECTED as error:
            self._said.show(notice(sentence(error), "bad"))
        else:
            self._said.show(notice(f"{plural(done.letters, 'letter')} sent back to be processed again.", "good"))
        finally:
            self._is_busy = False
        await self._load()


def show(site: Site, topic: str) -> None:
    LettersView(site, topic)


def render(topic: str, found: list[tuple[Seen, DeadLetter]], *, is_asked: bool, is_busy: bool) -> Html:
    rows = [_row(*each) for each in found]
    first = f"The oldest {SHOWN_MAX}" if len(found) == SHOWN_MAX else plural(len(found), "letter")
    body = tag("div", *rows, class_="msgs") if rows else tag("p", "No letters wait.", class_="empty")
    side = (
        _buttons(is_asked, is_busy) if found else link("All messages of the topic", path("topics", topic, "messages"))
    )
    return panel(f"{first} waiting" if found else "Waiting", body, side=side)


def _buttons(is_asked: bool, is_busy: bool) -> Html:
    if is_asked:
        return join(
            [
                "Send all that wait back to their topics? ",
                tag("button", "Yes, redrive", class_="button primary", data_do="redrive", type="button"),
                " ",
                tag("button", "No", class_="button", data_do="no", type="button"),
            ]
        )
    return tag("button", "Redrive …", class_="button", data_do="ask", type="button", disabled=is_busy)


def _row(record: Seen, letter: DeadLetter) -> Html:
    summary = tag(
        "summary",
        tag("span", moment(letter.failed_at_ms), class_="when"),
        tag("span", f"{letter.at.partition} : {count(letter.offset)}", class_="place", title="Partition : offset"),
        tag("span", preview(record.key), class_="keyed"),
        tag("span", letter.error[:ERROR_MAX], class_="preview"),
        tag("span", plural(letter.deliveries, "try", "tries"), class_="bytes"),
    )
    source = path("topics", letter.at.topic, "messages", letter.at.partition, letter.offset)
    body = tag(
        "div",
        tag(
            "div",
            tag("span", "From ", link(f"{letter.at} at {count(letter.offset)}", source)),
            tag("span", f"Group {letter.group}"),
            tag("span", f"Tried {plural(letter.deliveries, 'time')}"),
            class_="actions",
        ),
        headers(letter.headers),
        pretty(record.value, is_whole=len(record.value or b"") == record.value_bytes),
        tag("pre", letter.traceback.strip() or letter.error, class_="value trace"),
        class_="msg-body",
    )
    return tag("details", summary, body, class_="msg", data_key=f"{record.partition}-{record.offset}")
