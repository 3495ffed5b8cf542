"""Processes that belong together, played by small scripts."""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from ottla.cli import supervisor as module
from ottla.cli.failures import ExitCode
from ottla.cli.supervisor import Child, Program, Supervisor

SERVE = """
import os, pathlib, signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))
while True:
    signal.pause()
"""
STUBBORN = SERVE.replace("lambda *_: sys.exit(0)", "lambda *_: None")
FAIL = "import sys; print('first'); print('the port is taken'); sys.exit({code})"


def program(directory: Path, name: str, script: str) -> Program:
    mark = directory / f"{name}.pid"
    return Program(
        name=name,
        command=[sys.executable, "-c", script, str(mark)],
        log_file=directory / "logs" / f"{name}.log",
        is_ready=lambda pid: mark.exists() and mark.read_text() == str(pid),
    )


class Rig:
    def __init__(self, *programs: Program) -> None:
        self.said: list[str] = []
        self.ready: list[str] = []
        self.supervisor = Supervisor(programs, self.said.append)
        self.run = asyncio.ensure_future(self.supervisor.run(self._on_ready))

    def _on_ready(self, child: Child) -> None:
        self.ready.append(child.program.name)

    @property
    def pids(self) -> list[int | None]:
        return [child.pid for child in self.supervisor.children]

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            assert not self.run.done()
            await asyncio.sleep(0.005)


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def body() -> None:
        await asyncio.wait_for(test(), 30)

    asyncio.run(body())


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RESTART_MS_MIN", 20)
    monkeypatch.setattr(module, "READY_INTERVAL_S", 0.005)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_stops_all(tmp_path: Path, number: signal.Signals) -> None:
    async def test() -> None:
        rig = Rig(program(tmp_path, "a", SERVE), program(tmp_path, "b", SERVE))
        await rig.until(lambda: len(rig.ready) == 2)
        os.kill(os.getpid(), number)
        assert await rig.run is None
        assert [child.exit_code for child in rig.supervisor.children] == [0, 0]
        assert rig.said == []

    run(test)


def test_one_that_dies_is_started_again_and_the_others_go_on(tmp_path: Path) -> None:
    async def test() -> None:
        rig = Rig(program(tmp_path, "a", SERVE), program(tmp_path, "b", SERVE))
        await rig.until(lambda: len(rig.ready) == 2)
        first, other = rig.pids
        assert first is not None
        os.kill(first, signal.SIGKILL)
        await rig.until(lambda: len(rig.ready) == 3)
        assert rig.ready[-1] == "a"
        assert rig.pids[1] == other
        assert rig.pids[0] not in (None, first)
        assert rig.said == ["a was killed by signal 9; it is started again in 0.02 s"]
        rig.supervisor.stop()
        await rig.run

    run(test)


def test_the_pause_grows_while_it_keeps_dying(tmp_path: Path) -> None:
    async def test() -> None:
        rig = Rig(program(tmp_path, "a", "raise SystemExit(1)"))
        await rig.until(lambda: len(rig.said) == 4)
        rig.supervisor.stop()
        assert await rig.run is None
        assert [said.rsplit(" ", 2)[1] for said in rig.said[:4]] == ["0.02", "0.04", "0.08", "0.16"]

    run(test)


@pytest.mark.parametrize("code", [ExitCode.USAGE, ExitCode.PORT_TAKEN, ExitCode.DIRECTORY_LOCKED])
def test_one_that_can_not_be_started_ends_the_whole(tmp_path: Path, code: ExitCode) -> None:
    async def test() -> None:
        rig = Rig(program(tmp_path, "a", SERVE), program(tmp_path, "b", FAIL.format(code=int(code))))
        failed = await rig.run
        assert failed is rig.supervisor.children[1]
        assert failed.exit_code == code
        assert failed.last_words() == "the port is taken"
        assert rig.pids == [None, None]

    run(test)


def test_what_has_served_once_is_always_started_again(tmp_path: Path) -> None:
    async def test() -> None:
        script = SERVE.replace("sys.exit(0)", f"sys.exit({int(ExitCode.PORT_TAKEN)})")
        rig = Rig(program(tmp_path, "a", script))
        await rig.until(lambda: len(rig.ready) == 1)
        assert rig.pids[0] is not None
        os.kill(rig.pids[0], signal.SIGTERM)
        await rig.until(lambda: len(rig.ready) == 2)
        rig.supervisor.stop()
        assert await rig.run is None

    run(test)


def test_a_second_signal_kills_what_does_not_stop(tmp_path: Path) -> None:
    async def test() -> None:
        rig = Rig(program(tmp_path, "a", STUBBORN))
        await rig.until(lambda: len(rig.ready) == 1)
        rig.supervisor.stop()
        rig.supervisor.stop()
        assert await rig.run is None
        assert rig.supervisor.children[0].exit_code == -signal.SIGKILL

    run(test)


def test_what_does_not_stop_in_time_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KILL_AFTER_S", 0.05)

    async def test() -> None:
        rig = Rig(program(tmp_path, "a", STUBBORN))
        await rig.until(lambda: len(rig.ready) == 1)
        rig.supervisor.stop()
        assert await rig.run is None

    run(test)


def test_stopping_during_a_pause_does_not_start_anything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RESTART_MS_MIN", 10**6)

    async def test() -> None:
        rig = Rig(program(tmp_path, "a", "raise SystemExit(1)"))
        await rig.until(lambda: len(rig.said) == 1)
        rig.supervisor.stop()
        assert await rig.run is None
        assert rig.supervisor.children[0].restarts == 0

    run(test)
