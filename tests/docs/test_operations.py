"""docs/OPERATIONS.md is one session: its commands are run in order, on ports and in a directory of their own."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ports import free_ports
from tests.programs import require

PAGE = (Path(__file__).parents[2] / "docs" / "OPERATIONS.md").read_text()
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NODES = 4
FINISHED_WITHIN_S = 280


def session() -> str:
    """With the line that is being run on standard error, so that a failure says where."""
    blocks = [body for language, body in BLOCK.findall(PAGE) if language == "sh"]
    return "set -eu -o pipefail -x\n" + "\n".join(blocks)


def on_free_ports(commands: str) -> str:
    for first in (9092, 7946, 8080):
        base = free_ports(NODES)
        commands = re.sub(rf"\b{first - 1} \+", f"{base - 1} +", commands)
        for at in range(NODES):
            commands = re.sub(rf":{first + at}\b", f":{base + at}", commands)
    return commands


def test_there_is_no_block_that_nobody_runs() -> None:
    assert {language for language, _ in BLOCK.findall(PAGE)} == {"sh"}


@pytest.mark.timeout(300)
def test_the_session_of_the_page_runs(tmp_path: Path) -> None:
    require("curl")
    commands = on_free_ports(session())
    [port] = re.findall(r'"bootstrap.servers": "127.0.0.1:(\d+)"', commands)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OTTLA_")}
    addresses = ",".join(f"127.0.0.1:{int(port) + at}" for at in range(3))
    environment = {
        **kept,
        "PATH": f"{Path(sys.executable).parent}:{kept['PATH']}",
        "OTTLA_BOOTSTRAP": addresses,
    }
    with open(tmp_path / "said", "w+") as said:
        shell = subprocess.Popen(
            ["bash", "-c", commands], cwd=tmp_path, env=environment, stdout=said, stderr=said, start_new_session=True
        )
        try:
            code = shell.wait(FINISHED_WITHIN_S)
        finally:
            _end(shell.pid)
        said.seek(0)
        assert code == 0, said.read()[-5_000:]


def _end(group: int) -> None:
    """Whatever is left of the session: nodes too, if it has failed."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return
