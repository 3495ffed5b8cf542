"""`ottla demo` from beginning to end: nodes, generator and pipeline, and its own check at the end."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

import pytest

from tests.cli.command import SCRIPT, environment
from tests.ports import free_ports
from tests.programs import needs

JAVA = needs("java")
CHECKED = [
    "topic raw", "topic clean", "table clean", "topic tumbling", "table tumbling", "topic sliding", "table sliding",
    "topic sessions", "table sessions", "topic orders", "table orders", "topic raw.dlq",
]  # fmt: skip


class Demo:
    """Not a terminal, as in a pipe."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = free_ports(3)

    def run(self, *flags: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
        ports = ["--port", str(self.port), "--cluster-port", str(free_ports(3))]
        command = [SCRIPT, "demo", "--dir", str(self.directory), *ports, "--seed", "3", *flags]
        variables = environment(None)
        if path is not None:
            variables = {**variables, "PATH": str(path)}
            variables.pop("JAVA_HOME", None)
        done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=900, check=False)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{self.log('pipeline')}"
        return done

    def log(self, name: str) -> str:
        file = self.directory / f"{name}.log"
        return file.read_text(errors="replace")[-5_000:] if file.exists() else ""


def checked(done: subprocess.CompletedProcess[str]) -> list[str]:
    """What was found right."""
    return [
        line.removeprefix("ok ").strip().partition(":")[0] for line in done.stdout.splitlines() if line[:3] == "ok "
    ]


@JAVA
@pytest.mark.timeout(900)
def test_every_event_is_counted_once_and_nothing_is_left_running(tmp_path: Path) -> None:
    demo = Demo(tmp_path / "demo")

    done = demo.run("--rate", "100", "--for", "4s", "--conf", "spark.ui.enabled=false")

    assert checked(done) == CHECKED
    assert "windows closed" in done.stdout
    assert _listening(demo.port) is False


@JAVA
@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_the_same_pipeline_runs_on_a_spark_cluster_and_events_come_over_http(tmp_path: Path) -> None:
    demo = Demo(tmp_path / "demo")

    done = demo.run("--rate", "100", "--for", "10s", "--workers", "2", "--http")

    assert checked(done) == CHECKED
    workers = [path.name for path in sorted((tmp_path / "demo").glob("spark-work-*")) if list(path.glob("app-*/*"))]
    assert workers == ["spark-work-1", "spark-work-2"]


@pytest.mark.timeout(300)
def test_without_java_it_says_how_to_install_it_and_the_rest_runs(tmp_path: Path) -> None:
    demo = Demo(tmp_path / "demo")
    nowhere = tmp_path / "nowhere"
    nowhere.mkdir()

    done = demo.run("--rate", "200", "--for", "2s", path=nowhere)

    assert checked(done) == ["topic raw"]
    assert "apt install default-jre-headless" in done.stderr


def _listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
