"""Runs the installed `ottla` script."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SCRIPT = str(Path(sys.executable).with_name("ottla"))
FINISHED_WITHIN_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)

    @property
    def lines(self) -> list[str]:
        return self.stdout.splitlines()


def environment(bootstrap: str | None) -> dict[str, str]:
    """Without what the developer's shell happens to have set."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OTTLA_")}
    return kept if bootstrap is None else {**kept, "OTTLA_BOOTSTRAP": bootstrap}


class Ottla:
    """`ottla("topic", "list")` runs that command and asserts how it ends."""

    def __init__(self, bootstrap: str | None = None) -> None:
        self.bootstrap = bootstrap

    def __call__(self, *arguments: str, stdin: str | bytes = b"", code: int = 0, **variables: str) -> Finished:
        given = stdin.encode() if isinstance(stdin, str) else stdin
        done = subprocess.run(
            [SCRIPT, *arguments],
            input=given,
            capture_output=True,
            env={**environment(self.bootstrap), **variables},
            timeout=FINISHED_WITHIN_S,
            check=False,
        )
        finished = Finished(code=done.returncode, stdout=done.stdout.decode(), stderr=done.stderr.decode())
        assert finished.code == code, f"ottla {' '.join(arguments)}: {finished}"
        assert "Traceback" not in finished.stderr, finished.stderr
        return finished

    @contextmanager
    def running(self, *arguments: str, **more: Any) -> "Iterator[subprocess.Popen[bytes]]":
        """For commands that a test must talk to while they run. Whatever happens in the block, they end with it."""
        pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        command = [SCRIPT, *arguments]
        with subprocess.Popen(command, env=environment(self.bootstrap), **{**pipes, **more}) as process:
            try:
                yield process
            finally:
                process.kill()
