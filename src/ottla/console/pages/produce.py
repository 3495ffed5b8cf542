"""Writing one message by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping

from nicegui import ui

from ottla.console.frame import topic_page
from ottla.console.live import Form
from ottla.console.markup import Html, join, link, notice, path, tag
from ottla.console.pages.messages import field
from ottla.console.site import Site
from ottla.console.source import EXPECTED, sentence
from ottla.console.text import count
from ottla.http.errors import bad_request
from ottla.http.messages import Encoding, Message


def message_of(given: Mapping[str, str]) -> Message:
    """What the form says. HttpError, with a sentence, where it can't be meant."""
    value: str | None = given.get("value", "")
    if given.get("null"):
        value = None
    elif given.get("json"):
        try:
            json.loads(value or "")
        except ValueError as error:
            raise bad_request(f"The value is not JSON: {error}.") from None
    partition = given.get("partition", "").strip()
    if partition and not (partition.isascii() and partition.isdigit() and len(partition) < 10):
        raise bad_request(f"Partition is {partition[:40]!r}; a number is wanted.")
    return Message(
        key=given.get("key") or None,
        value=value,
        headers=headers_of(given.get("headers", "")),
        partition=int(partition) if partition else None,
    )


def headers_of(text: str) -> list[tuple[str, str | None]]:
    """`name: value` in each line; a line without a colon is a header without a value."""
    found: list[tuple[str, str | None]] = []
    for line in filter(None, (line.strip() for line in text.splitlines())):
        name, has_value, value = line.partition(":")
        if not name.strip():
            raise bad_request(f"The header {line[:40]!r} has no name.")
        found.append((name.strip(), value.strip() if has_value else None))
    return found


def show(site: Site, topic: str) -> None:
    page = topic_page(site, topic, "Produce")
    said = page.live()

    async def send(given: dict[str, str]) -> None:
        try:
            message = message_of(given)
            if message.partition is not None and message.partition >= await site.api.partition_count(topic):
                raise bad_request(f"{topic} has no partition {message.partition}.")
            _, written = await site.api.producing.produce(topic, [message], Encoding.TEXT, single=True)
        except EXPECTED as error:
            said.show(notice(sentence(error), "bad"))
        else:
            said.show(_written(topic, written["partition"], written["offset"]))

    with page.main, ui.element("section").classes("panel"):
        Form(_fields(), send, classes="form stack")


def _written(topic: str, partition: int, offset: int) -> Html:
    here = link("Show it", path("topics", topic, "messages", partition, offset))
    return notice(join([f"Written to {topic}-{partition} at offset {count(offset)}. ", here]), "good")


def _fields() -> Html:
    lines = "One in each line, such as trace: af01"
    return join(
        [
            tag(
                "div",
                field("Key", tag("input", name="key", placeholder="None", autocomplete="off")),
                field("Partition", tag("input", name="partition", inputmode="numeric", placeholder="By the key")),
                class_="row",
            ),
            field("Value", tag("textarea", name="value", rows=10, spellcheck="false", placeholder='{"order": 7}')),
            field("Headers", tag("textarea", name="headers", rows=2, spellcheck="false", placeholder=lines)),
            tag(
                "div",
                tag("button", "Write", tag("kbd", "Ctrl Enter"), class_="button primary", type="submit"),
                tag("label", tag("input", type="checkbox", name="json"), "Must be JSON", class_="check"),
                tag(
                    "label",
                    tag("input", type="checkbox", name="null"),
                    "Null value (deletes the key where compacted)",
                    class_="check",
                ),
                class_="actions",
            ),
        ]
    )
