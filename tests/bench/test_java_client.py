"""What is made of the reports of Java's client, with a program in its place that says what it would."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from bench.java_client import Report, java, parse
from bench.jit import Compilers
from bench.native import DriverError
from bench.setting import Setting, Windows

from bench import apache_kafka
from ottla.embedded import EmbeddedNode

LINE = "{0} records sent, {0:.1f} records/sec (1.00 MB/sec), {1:.1f} ms avg latency, 30.0 ms max latency."
"""Of one second."""


def test_a_report_is_read() -> None:
    line = "98784 records sent, 197568.0 records/sec (188.42 MB/sec), 329.5 ms avg latency, 366.0 ms max latency.\n"

    assert parse(line) == Report(98784, 0.5, 329.5)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "WARN something happens",
        "0 records sent, 0.0 records/sec (0.00 MB/sec), NaN ms avg latency, 0.0 ms max latency.",
    ],
)
def test_other_lines_are_passed_over(line: str) -> None:
    assert parse(line) is None


class AServer:
    """A node in this process that takes two seconds of CPU from one look to the next."""

    replicas = 1
    pids = (os.getpid(),)

    def __init__(self, node: EmbeddedNode) -> None:
        self.bootstrap = node.bootstrap
        self.port = int(node.bootstrap.rpartition(":")[2])
        self._cpu_s = 0.0

    def cpu_s(self) -> float:
        self._cpu_s += 2.0
        return self._cpu_s


def measured(tmp_path: Path, patch: pytest.MonkeyPatch, script: str) -> dict[str, Any]:
    def command(_: str, arguments: list[str]) -> list[str]:
        return [sys.executable, "-u", "-c", script, *arguments]

    patch.setattr(apache_kafka, "client_command", command)
    with EmbeddedNode(tmp_path) as node:
        server: Any = AServer(node)
        windows = Windows(seconds=2, warmup_s=3, jit_s_max=9)
        return java("java_1kb", record_bytes=1000)(Setting(server=server, windows=windows, spare=lambda: server))


def test_what_comes_after_the_warm_up_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [LINE.format(count, mean_ms) for count, mean_ms in [(1, 9), (2, 9), (3, 9), (100, 4), (300, 8), (9_999, 1)]]
    script = f"import time; print({chr(10).join(['a warning', *lines])!r}); time.sleep(600)"

    figures = measured(tmp_path, monkeypatch, script)

    assert figures["rate"] == 200
    assert figures["mb_per_s"] == pytest.approx(0.2)
    assert figures["mean_ms"] == 7
    assert figures["broker_cpu_us"] == 5_000
    assert (figures["seconds"], figures["messages"]) == (2, 400)


def test_a_window_waits_for_compilers_that_are_at_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shares = iter([0.7, 0.6, 0.05, 0.5, 0.02, 0.01])
    monkeypatch.setattr(Compilers, "share", lambda _: next(shares))
    lines = [LINE.format(count, 5) for count in (1, 2, 3, 4, 5, 6, 100, 300, 9_999)]
    script = f"import time; print({chr(10).join(lines)!r}); time.sleep(600)"

    figures = measured(tmp_path, monkeypatch, script)

    assert (figures["warm_s"], figures["messages"]) == (6, 400)


def test_it_does_not_wait_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Compilers, "share", lambda _: 1.0)
    script = f"import time; print({chr(10).join([LINE.format(1, 5)] * 20)!r}); time.sleep(600)"

    figures = measured(tmp_path, monkeypatch, script)

    assert figures["warm_s"] == 3 + 9


def test_it_is_told_what_to_write_and_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = tmp_path / "told"
    script = f"import sys; open({str(told)!r}, 'w').write(' '.join(sys.argv[1:])); "
    script += f"\nfor _ in range(9): print({LINE.format(9, 1)!r})"

    measured(tmp_path / "data", monkeypatch, script)

    assert "--record-size 1000 " in told.read_text()
    assert "--topic java_1kb-" in told.read_text()


def test_a_client_that_ends_is_an_error_with_its_last_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = f"import sys; print({LINE.format(9, 1)!r}); sys.exit('no such option')"

    with pytest.raises(DriverError, match="no such option"):
        measured(tmp_path, monkeypatch, script)


def test_none_is_left_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pid = tmp_path / "pid"
    script = f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid()))"
    script += f"\nfor _ in range(9): print({LINE.format(9, 1)!r})\ntime.sleep(600)"

    measured(tmp_path / "data", monkeypatch, script)

    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
