"""A real Prometheus."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import yaml

from tests.deploy.pods import REPOSITORY
from tests.interop.node_process import process_wait
from tests.ports import free_ports

CONFIG = REPOSITORY / "deploy" / "prometheus" / "prometheus.yml"
ALERTS = CONFIG.with_name("alerts.yml")
READY_WITHIN_S = 60.0


class Prometheus:
    """With the configuration of deploy/, save for whom it asks and how often."""

    def __init__(self, directory: Path, targets: list[str]) -> None:
        self._directory = directory
        self._targets = targets
        self.port = free_ports(1)

    def config(self) -> dict[str, Any]:
        found: dict[str, Any] = yaml.safe_load(CONFIG.read_text())
        found["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        found["rule_files"] = [str(ALERTS)]
        [job] = found["scrape_configs"]
        job["static_configs"] = [{"targets": self._targets}]
        return found

    def __enter__(self) -> Self:
        config = self._directory / "prometheus.yml"
        config.write_text(yaml.safe_dump(self.config()))
        command = [
            "prometheus",
            f"--config.file={config}",
            f"--storage.tsdb.path={self._directory / 'data'}",
            f"--web.listen-address=127.0.0.1:{self.port}",
            "--log.level=warn",
        ]
        with open(self._directory / "log", "wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._directory)
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=30)
        for _ in range(int(READY_WITHIN_S / 0.1)):
            assert self._process.poll() is None, (self._directory / "log").read_text()
            if self._is_ready():
                return self
            process_wait(self._process, 0.1)
        self._process.kill()
        self._process.wait(30)
        raise AssertionError((self._directory / "log").read_text())

    def _is_ready(self) -> bool:
        try:
            return self.client.get("/-/ready").status_code == 200
        except httpx.HTTPError:
            return False

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.client.close()
        self._process.terminate()
        self._process.wait(30)

    def wait(self, seconds: float) -> None:
        """For another scrape."""
        process_wait(self._process, seconds)

    def query(self, expression: str) -> list[float]:
        """The figures that it gives now; those that are none are left out."""
        answer = self.client.post("/api/v1/query", data={"query": expression}).json()
        assert answer["status"] == "success", (expression, answer)
        data = answer["data"]
        found = [data["result"]] if data["resultType"] == "scalar" else [each["value"] for each in data["result"]]
        return [float(shown) for _, shown in found if shown != "NaN"]

    def rules(self) -> list[dict[str, Any]]:
        groups = self.client.get("/api/v1/rules").json()["data"]["groups"]
        return [rule for group in groups for rule in group["rules"]]
