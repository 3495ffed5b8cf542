"""Shows the demonstration: a page that is drawn again and again on a terminal, a line now and then anywhere else."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Final, Protocol, Self

import click

from ottla.cli.demo_watch import State
from ottla.pipelines.settings import RESULTS, PipelineSettings

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

__all__ = ["View", "new_view"]

LINE_EVERY_S: Final = 5.0
REFRESHES_PER_S: Final = 4
WINDOWS_MIN: Final = 3
LINES_AROUND_WINDOWS: Final = 18
FLOWS: Final = ("clean", "set_aside", "tumbling", "sliding", "sessions", "orders", "tell_results")


class View(Protocol):
    def show(self, state: State) -> None: ...

    def say(self, text: str) -> None:
        """A remark that stays."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None: ...


def new_view(settings: PipelineSettings, links: dict[str, str]) -> View:
    return TerminalView(settings, links) if sys.stdout.isatty() else LineView(settings)


class LineView:
    """For pipes and logs."""

    def __init__(self, settings: PipelineSettings) -> None:
        self._settings = settings
        self._last_s = 0.0

    def show(self, state: State) -> None:
        now_s = time.monotonic()
        if now_s - self._last_s >= LINE_EVERY_S:
            self._last_s = now_s
            self.say(line(state, self._settings))

    def say(self, text: str) -> None:
        click.echo(text)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class TerminalView:
    def __init__(self, settings: PipelineSettings, links: dict[str, str]) -> None:
        from rich.console import Console
        from rich.live import Live

        self._settings = settings
        self._links = links
        self._console = Console()
        self._live = Live(console=self._console, refresh_per_second=REFRESHES_PER_S, transient=True)

    def show(self, state: State) -> None:
        self._live.update(page(state, self._settings, self._links, self._console.height))

    def say(self, text: str) -> None:
        self._console.print(text, highlight=False)

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._live.__exit__(kind, error, at)


def line(state: State, settings: PipelineSettings) -> str:
    counts = state.counts
    return (
        f"{state.elapsed_s:5.0f} s  {state.phase}: raw {counts.get(settings.raw, 0):,}"
        f" ({state.rates.get(settings.raw, 0):,.0f}/s), clean {counts.get(settings.topic('clean'), 0):,},"
        f" dead letters {counts.get(settings.dead_letters, 0):,}, lag {_seconds(state.lag_s)},"
        f" {state.windows_closed:,} windows closed, {state.runs} runs"
    )


def page(state: State, settings: PipelineSettings, links: dict[str, str], height: int) -> RenderableType:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    head = Text.assemble(
        ("Ottla", "bold"), f"  {state.elapsed_s:,.0f} s  ", (state.phase, "bold cyan"),
        f"  lag {_seconds(state.lag_s)} ({_number(state.lag_records)})",
        f"  run {state.runs}: {_seconds(None if state.run_ms is None else state.run_ms / 1_000)}",
        f"  watermark {(state.watermark or '-')[11:19] or '-'}",
    )  # fmt: skip
    shown = {**links, **({"Spark": state.spark_ui} if state.spark_ui else {})}
    foot = Text("   ".join(f"{name}: {link}" for name, link in shown.items()), style="dim")
    both = Table.grid(padding=(0, 1))
    both.add_row(_topics(state, settings), _flows(state))
    return Group(head, both, _windows(state, max(WINDOWS_MIN, height - LINES_AROUND_WINDOWS)), foot)


def _topics(state: State, settings: PipelineSettings) -> RenderableType:
    table = _table("topic", "offsets", "per s")
    for topic in (settings.raw, settings.dead_letters, *map(settings.topic, RESULTS)):
        table.add_row(topic, f"{state.counts.get(topic, 0):,}", f"{state.rates.get(topic, 0):,.0f}")
    return table


def _flows(state: State) -> RenderableType:
    table = _table("flow", "batch", "rows", "ms")
    for flow in FLOWS:
        batch = state.batches.get(flow)
        cells = ("-", "-", "-") if batch is None else (f"{batch.number}", f"{batch.rows:,}", f"{batch.ms:,}")
        table.add_row(flow, *cells)
    return table


def _windows(state: State, most: int) -> RenderableType:
    table = _table("window that closed", "client", "events", "orders", "amount")
    for window in list(reversed(state.windows))[:most]:
        span = f"{window['window_start'][11:19]} - {window['window_end'][11:19]}"
        amount = f"{float(window['amount']):,.2f}"
        table.add_row(span, window["client_id"], f"{window['events']:,}", f"{window['orders']:,}", amount)
    return table


def _table(first: str, *others: str) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column(first, min_width=13, no_wrap=True)
    for name in others:
        table.add_column(name, justify="right", min_width=6)
    return table


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f} s"


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
