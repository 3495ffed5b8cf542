"""What the demonstration shows, on a terminal and elsewhere."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from ottla.cli.demo_view import line, page
from ottla.cli.demo_watch import Batch, State, Watch
from ottla.pipelines.settings import PipelineSettings
from ottla.testing.pytest_plugin import OttlaNode

SETTINGS = PipelineSettings()
WINDOW = {
    "window_start": "2026-11-15T17:00:10.000Z", "window_end": "2026-11-15T17:00:20.000Z", "client_id": "client-3",
    "events": 17, "orders": 2, "amount": 12.5,
}  # fmt: skip


def busy() -> State:
    state = State(elapsed_s=12, phase="events come in", lag_records=340, lag_s=1.7, runs=3, run_ms=4_200)
    state.counts, state.rates = {"raw": 2_400, "clean": 2_000}, {"raw": 200.0}
    state.batches["clean"] = Batch(number=7, rows=600, ms=812)
    state.windows.append(WINDOW)
    state.windows_closed, state.spark_ui = 1, "http://127.0.0.1:4040"
    return state


def drawn(state: State, width: int) -> str:
    console = Console(width=width, height=60)
    with console.capture() as captured:
        console.print(page(state, SETTINGS, {"console": "http://127.0.0.1:8080/console"}, 24))
    return captured.get()


def test_a_page_has_rates_lag_batches_windows_and_links() -> None:
    text = drawn(busy(), 110)

    for told in ("2,400", "200", "1.7 s", "(340)", "812", "4.2 s", "17:00:10 - 17:00:20", "client-3", "12.50"):
        assert told in text
    assert "http://127.0.0.1:8080/console" in text
    assert "http://127.0.0.1:4040" in text


def test_a_page_can_be_drawn_before_anything_is_known() -> None:
    assert "starting" in drawn(State(), 40)


def test_a_page_fits_a_small_terminal_however_many_windows_have_closed() -> None:
    state = busy()
    state.windows.extend([WINDOW] * 50)
    lines = drawn(state, 80).rstrip().splitlines()

    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80


def test_a_line_says_the_same_in_short() -> None:
    assert line(busy(), SETTINGS) == (
        "   12 s  events come in: raw 2,400 (200/s), clean 2,000, dead letters 0, lag 1.7 s, 1 windows closed, 3 runs"
    )


def test_a_watch_follows_what_the_pipeline_tells_and_counts_topics(
    ottla_node_factory: Callable[..., OttlaNode], tmp_path: Path
) -> None:
    node = ottla_node_factory()
    told = tmp_path / "progress.jsonl"
    watch = Watch(PipelineSettings(bootstrap=node.bootstrap_servers, topic_prefix="watch."), told)
    try:
        assert watch.look().counts == {}
        node.admin().create_topic("watch.raw", partitions=2)
        node.admin().create_topic("watch.tumbling", partitions=1)
        node.producer().send("watch.raw", b"one").result()
        node.producer().send("watch.tumbling", json.dumps(WINDOW).encode()).result()
        batch = {"event": "batch", "flow": "clean", "batch": 4, "rows": 9, "ms": 70, "watermark": None}
        told.write_text(f'{{"event": "begun", "number": 2}}\n{json.dumps(batch)}\n{{"event": "ru')

        while not watch.look().windows:
            pass
        state = watch.look()

        assert state.counts == {"watch.raw": 1, "watch.tumbling": 1}
        assert (state.run_began, state.runs, state.windows_closed) == (2, 0, 1)
        assert state.batches["clean"] == Batch(number=4, rows=9, ms=70)
        with told.open("a") as file:
            file.write('n", "number": 2, "ms": 5}\n')
        assert watch.look().runs == 2
    finally:
        watch.close()
