"""A pipeline in a directory, on some broker, and the truth about what was sent to it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from tests.cli.command import SCRIPT, Ottla, environment
from tests.interop.node_process import process_wait

EVENTS = 1_500
SETTINGS = {"lateness_s": 10, "skew_s": 2, "window_s": 10, "slide_s": 5, "session_gap_s": 5, "payment_s": 8}
CLOSING = "40s"
JAVA = "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class Rig:
    """One pipeline, with the commands of a user."""

    def __init__(self, directory: Path, bootstrap: str) -> None:
        self.directory = directory / "pipeline"
        self.ottla = Ottla(bootstrap)
        self._truth = directory / "truth.jsonl"
        self._runs = 0
        self._start_ms = (time.time_ns() // 1_000_000) - 600_000
        self._sent = 0

    def send(self, *flags: str) -> None:
        """What happens in the fifteen seconds after the last ones."""
        self._sent += 1
        self._start_ms += EVENTS * 10
        self.ottla(
            "ingest", "--events", str(EVENTS), "--rate", "100", "--start-ms", str(self._start_ms), "--seed",
            str(self._sent), "--lateness", "10s", "--malformed", "0.05", "--duplicate", "0.1", "--late", "0.2",
            "--too-late", "0.02", "--truth", str(self._truth), *flags,
        )  # fmt: skip

    def start(self, *flags: str) -> Pipeline:
        self._runs += 1
        progress = self.directory.parent / f"progress-{self._runs}.jsonl"
        command = [SCRIPT, "pipeline", "run", "--dir", str(self.directory), "--progress", str(progress), *flags]
        command += ["--conf", JAVA, "--conf", "spark.ui.enabled=false"]
        command += [flag for name, value in SETTINGS.items() for flag in ("--set", f"{name}={value}")]
        return Pipeline(command, environment(self.ottla.bootstrap), progress)

    def check(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.ottla(
            "pipeline", "check", "--dir", str(self.directory), "--truth", str(self._truth), "--json"
        ).json
        return found


class Pipeline:
    def __init__(self, command: list[str], variables: dict[str, str], progress: Path) -> None:
        self._progress = progress
        log = progress.with_suffix(".log").open("wb")
        self.process = subprocess.Popen(command, env=variables, stdout=log, stderr=log, start_new_session=True)
        log.close()

    def told(self) -> list[dict[str, Any]]:
        if not self._progress.exists():
            return []
        return [json.loads(line) for line in self._progress.read_text().splitlines() if line.endswith("}")]

    def until(self, says: str) -> None:
        while not any(says in event.get("says", "") for event in self.told()):
            assert self.process.poll() is None, self._progress.with_suffix(".log").read_text()
            process_wait(self.process, 0.05)

    def kill(self) -> None:
        """The driver and its JVM."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def ended(self) -> int:
        return self.process.wait(1_800)

    def batches(self, flow: str) -> list[int]:
        return [event["batch"] for event in self.told() if event.get("flow") == flow]
