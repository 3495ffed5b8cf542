"""The two elements that pages are made of: HTML that changes in place, and forms that tell what was entered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from nicegui.element import Element
from nicegui.events import GenericEventArguments

from ottla.console.markup import Html

SUBMIT = "(event) => { event.preventDefault(); emit(Object.fromEntries(new FormData(event.target))); }"
CHOOSE = "(event) => { const on = event.target.closest('[data-do]'); if (on && !on.disabled) emit(on.dataset.do); }"


class Live(Element, component="assets/live.js"):
    """Shows HTML. What the reader has focused, selected or opened stays so when it changes."""

    def __init__(self, html: Html | None = None, *, classes: str = "") -> None:
        super().__init__()
        self._props["html"] = html or ""
        if classes:
            self.classes(classes)

    def show(self, html: Html) -> None:
        if html != self._props["html"]:
            self._props["html"] = html
            self.update()

    def on_choice(self, handler: Callable[[str], Awaitable[None] | None]) -> None:
        """When something with the attribute data-do is pressed: its value."""

        def chosen(event: GenericEventArguments) -> Awaitable[None] | None:
            return handler(str(event.args))

        self.on("click", chosen, js_handler=CHOOSE)


class Form(Element):
    """A form: Enter in a field, or its button, calls `on_submit` with the values by name."""

    def __init__(self, fields: Html, on_submit: Callable[[dict[str, str]], Awaitable[None] | None], *, classes: str):
        super().__init__("form")
        self.classes(classes)

        def submitted(event: GenericEventArguments) -> Awaitable[None] | None:
            given: dict[str, Any] = event.args if isinstance(event.args, dict) else {}
            return on_submit({str(name): str(value) for name, value in given.items()})

        self.on("submit", submitted, js_handler=SUBMIT)
        with self:
            Live(fields, classes="frame")
