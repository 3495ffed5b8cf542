"""What is loaded when: nothing before somebody asks, little for what machines ask, the framework for the rest."""

import json
import re
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from tests.http_api.rig import HttpNode, error_of
from tests.interop.node_process import NodeProcess
from tests.interop.waiting import eventually
from tests.ports import free_port

FRAMEWORK = {"fastapi", "starlette", "pydantic", "uvicorn", "websockets", "anyio"}
HOT = {"msgspec", "httptools"}
HOT_MB_MAX = 10
ALL_MB_MAX = 35
"""Measured: 4 and 29. More than this is something that nobody meant to load."""


def loaded_by(statements: str) -> set[str]:
    program = f"import sys\n{statements}\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    return set(
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    )


def test_a_node_that_nobody_asks_by_http_has_loaded_nothing_of_it() -> None:
    loaded = loaded_by("import ottla.cli.start, ottla.runtime.main, ottla.http.serving")
    assert "ottla" in loaded
    assert loaded.isdisjoint(FRAMEWORK | HOT)


def test_the_hot_routes_do_without_the_framework() -> None:
    loaded = loaded_by("import ottla.http.server, ottla.http.of_node, ottla.http.gateway")
    assert loaded >= HOT
    assert loaded.isdisjoint(FRAMEWORK)


class Asked:
    """A node, what it has mapped and how much memory it takes."""

    def __init__(self, node: NodeProcess, port: int) -> None:
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60)
        self._proc = Path(f"/proc/{node.pid}")

    @property
    def libraries(self) -> set[str]:
        """Compiled parts tell who was loaded."""
        return set(re.findall(r"site-packages/(\w+)/", (self._proc / "maps").read_text()))

    @property
    def mb(self) -> float:
        found = re.search(r"VmRSS:\s+(\d+) kB", (self._proc / "status").read_text())
        assert found is not None
        return int(found[1]) / 1000


def _accepts(port: int) -> bool:
    """Without a connection to it: the HTTP port is bound after the Kafka port."""
    with closing(socket.socket()) as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_is_spent_by_those_who_ask(tmp_path: Path) -> None:
    port = free_port()
    with closing(NodeProcess(tmp_path, "--http-port", str(port))) as node:
        node.start()
        eventually(lambda: _accepts(port))
        asked = Asked(node, port)
        before_mb = asked.mb
        assert asked.libraries.isdisjoint({"msgspec", "httptools", "pydantic_core"})

        with asked.client as client:
            assert client.get("/health").status_code == 200
            assert client.post("/topics/t/produce", json={"value": 1}).status_code == 404
            assert client.get("/topics/t/partitions/0/consume").status_code == 404
            assert "ottla_http_requests_total" in client.get("/metrics").text
            assert "msgspec" in asked.libraries
            assert "pydantic_core" not in asked.libraries
            assert asked.mb - before_mb < HOT_MB_MAX

            assert client.get("/topics").json() == {"topics": []}
            assert json.loads(client.get("/openapi.json").content)["info"]["title"] == "Ottla"
            assert "pydantic_core" in asked.libraries
            assert asked.mb - before_mb < ALL_MB_MAX


def test_a_framework_that_can_not_be_loaded_is_500_and_the_hot_routes_go_on(tmp_path: Path) -> None:
    def broken() -> None:
        raise ImportError("a broken installation")

    with HttpNode(tmp_path) as node:
        assert node.client.get("/health").status_code == 200
        assert node.listener is not None
        server = node.listener.server
        node.in_node(lambda _: setattr(server, "_import", broken))
        assert error_of(node.client.get("/topics")) == (500, "internal_error", None)
        assert node.client.get("/topics/t/partitions/0/consume").status_code == 404
        node.in_node(lambda _: delattr(server, "_import"))
        assert node.client.get("/topics").status_code == 200
