"""HTML that is made of escaped text: what a message or a broker says can never become markup.

    tag("td", "a < b", class_="number")   ->   <td class="number">a &lt; b</td>

Only `Html`, which `tag` makes, is taken as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from urllib.parse import quote

VOID = frozenset({"input", "br", "hr"})
"""Elements of HTML that have no end; those of SVG have one."""


class Html(str):
    """Markup that may stand as it is."""

    __slots__ = ()


Child = str | int | float | Html | None
Attribute = str | int | float | bool | None


def tag(name: str, /, *children: Child, **attributes: Attribute) -> Html:
    """`class_` is class, `data_key` is data-key; True stands without a value, None and False not at all."""
    written = "".join(_attribute(key, value) for key, value in attributes.items() if value not in (None, False))
    if name in VOID:
        return Html(f"<{name}{written}>")
    return Html(f"<{name}{written}>{''.join(map(_child, children))}</{name}>")


def _child(child: Child) -> str:
    if child is None:
        return ""
    return child if isinstance(child, Html) else escape(str(child))


def _attribute(key: str, value: Attribute) -> str:
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'


def join(children: Iterable[Child], between: str = "") -> Html:
    return Html(escape(between).join(map(_child, children)))


def path(*parts: str | int) -> str:
    """`path("topics", "a/b")` → /topics/a%2Fb"""
    return "/" + "/".join(quote(str(part), safe="") for part in parts)


def link(text: Child, href: str, class_: str | None = None) -> Html:
    return tag("a", text, href=href, class_=class_)


class Column:
    """Of a table. Numbers stand at the right; `wide` ones are left out on a phone."""

    __slots__ = ("is_number", "is_wide", "title")

    def __init__(self, title: str, *, number: bool = False, wide: bool = False) -> None:
        self.title = title
        self.is_number = number
        self.is_wide = wide

    @property
    def classes(self) -> str | None:
        return " ".join(["num"] * self.is_number + ["wide"] * self.is_wide) or None


def table(
    columns: Sequence[Column],
    rows: Iterable[Sequence[Child]],
    *,
    label: str,
    empty: str,
    keys: Sequence[str] | None = None,
) -> Html:
    """The first cell of a row is its header."""
    classes = [column.classes for column in columns]
    body = []
    for number, row in enumerate(rows):
        cells = [
            tag("th", cell, scope="row", class_=classes[0]) if not at else tag("td", cell, class_=classes[at])
            for at, cell in enumerate(row)
        ]
        body.append(tag("tr", *cells, data_key=keys[number] if keys else None))
    if not body:
        return tag("p", empty, class_="empty")
    head = tag("tr", *(tag("th", column.title, scope="col", class_=column.classes) for column in columns))
    return tag(
        "div",
        tag("table", tag("thead", head), tag("tbody", *body), aria_label=label),
        class_="scroll",
        role="region",
        aria_label=label,
        tabindex=0,
    )


def badge(text: str, kind: str = "") -> Html:
    """`kind`: good, warn, bad, or none."""
    return tag("span", text, class_=f"badge {kind}".strip())


def figure(label: str, value: Child, note: Child = None, kind: str = "") -> Html:
    """One number that matters, with what it is."""
    return tag(
        "div",
        tag("dt", label),
        tag("dd", tag("span", value, class_="value"), tag("span", note, class_="note") if note is not None else None),
        class_=f"figure {kind}".strip(),
    )


def figures(*each: Html) -> Html:
    return tag("dl", *each, class_="figures")


def panel(title: Child, *children: Child, side: Child = None, id_: str | None = None) -> Html:
    head = tag("header", tag("h2", title), tag("div", side, class_="side") if side is not None else None)
    return tag("section", head, *children, class_="panel", id=id_)


def notice(text: Child, kind: str = "", *more: Child) -> Html:
    return tag(
        "div", tag("p", text), *more, class_=f"notice {kind}".strip(), role="alert" if kind == "bad" else "status"
    )
