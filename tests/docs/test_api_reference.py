"""docs/API_REFERENCE.md: every name and route is there, no other is, and its commands do what it says."""

import re
import subprocess
from importlib import import_module
from pathlib import Path

import pytest

from tests.http_api.rig import HttpNode
from tests.programs import require

PAGE = (Path(__file__).parents[2] / "docs" / "API_REFERENCE.md").read_text()
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| `(ottla[\w.]*)` \| ([^|]+) \|", re.MULTILINE)
ROUTE = re.compile(r"`(GET|POST|DELETE) (/[^`?]*)`")
TIMED_OUT = 28
"""curl's exit code for a stream that was listened to for long enough."""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> "HttpNode":
    return HttpNode(tmp_path_factory.mktemp("reference"))


def documented(module: str) -> set[str]:
    return {name for where, names in ROW.findall(PAGE) if where == module for name in re.findall(r"`(\w+)`", names)}


@pytest.mark.parametrize("module", ["ottla", "ottla.stream", "ottla.two_phase"])
def test_every_public_name_is_in_the_table(module: str) -> None:
    extra = {"open"} if module == "ottla" else set()

    assert documented(module) == set(import_module(module).__all__) | extra
    assert all(hasattr(import_module(module), name) for name in documented(module))


def test_the_commands_work_and_every_route_is_there(node: HttpNode) -> None:
    require("curl")
    with node:
        [block] = BLOCK.findall(PAGE)
        shown = re.findall(r"^\$ (.+)\n((?:(?!\$ ).+\n)*)", block, re.MULTILINE)
        assert len(shown) == 4
        for command, output in shown:
            assert run(command, node.url, is_stream=" -N " in command).startswith(output.strip())
        served = {
            (method.upper(), re.sub(r"\{\w+\}", "{}", path))
            for path, methods in node.client.get("/openapi.json").json()["paths"].items()
            for method in methods
        }
    told = {(method, re.sub(r"\{\w+\}", "{}", path)) for method, path in ROUTE.findall(PAGE)}
    assert told == served


def run(command: str, url: str, *, is_stream: bool) -> str:
    here = command.replace("localhost:8080", url.removeprefix("http://"))
    limited = here.replace(
        "curl ",
        "curl --silent --show-error --fail-with-body --max-time 2 " if is_stream else "curl --silent --fail-with-body ",
        1,
    )
    done = subprocess.run(["bash", "-c", limited], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == (TIMED_OUT if is_stream else 0), done
    return done.stdout
