"""Forming on real sockets; what must never happen is looked for in `tests/membership/test_founding.py`."""

import asyncio
import logging

import pytest

from ottla.errors import ConfigError
from ottla.runtime import forming
from ottla.runtime.identity import load
from ottla.testing.disk import CrashingDisk
from tests.runtime.cluster_ports import Port, run, until


async def ports(count: int) -> list[Port]:
    return [await Port.open(node_id) for node_id in range(1, count + 1)]


def close(*opened: Port) -> None:
    for port in opened:
        port.die()


def test_three_founders_become_one_cluster() -> None:
    async def scenario() -> None:
        three = await ports(3)
        names = [port.name for port in three]

        identities = await asyncio.gather(*(port.form(names) for port in three))

        assert len({identity.cluster_id for identity in identities}) == 1
        assert all(identity.is_founder and len(identity.voters) == 3 for identity in identities)
        assert [load(port.disk.crash(), port.node_id) for port in three] == list(identities)
        close(*three)

    run(scenario)


def test_a_founder_that_comes_late_is_waited_for() -> None:
    async def scenario() -> None:
        first, second = await ports(2)
        names = [first.name, second.name]
        waiting = asyncio.ensure_future(first.form(names))
        await asyncio.sleep(0.3)
        assert not waiting.done()

        late = await second.form(names)

        assert (await waiting).cluster_id == late.cluster_id
        close(first, second)

    run(scenario)


def test_one_that_is_no_seed_joins_when_there_is_a_leader() -> None:
    async def scenario() -> None:
        first, other = await ports(2)
        first_forming = first.forming([first.name])
        identity = await first_forming.formed()
        joining = asyncio.ensure_future(other.form([first.name]))
        await asyncio.sleep(0.3)
        assert not joining.done()

        first_forming.established()

        joined = await joining
        assert joined.cluster_id == identity.cluster_id
        assert not joined.is_founder
        close(first, other)

    run(scenario)


def test_a_restart_needs_nobody() -> None:
    async def scenario() -> None:
        first, second = await ports(2)
        names = [first.name, second.name]
        founded, _ = await asyncio.gather(first.form(names), second.form(names))
        close(first, second)

        again = await Port.open(1, port=first.socket.port, disk=first.disk)

        assert await again.form(names) == founded
        close(again)

    run(scenario)


def test_a_directory_of_another_cluster_is_refused() -> None:
    async def scenario() -> None:
        first, foreign = await ports(2)
        await first.form([])
        await foreign.form([])

        with pytest.raises(ConfigError, match=r"belongs to cluster .* is of cluster"):
            await foreign.form([first.name])
        close(first, foreign)

    run(scenario)


def test_what_is_waited_for_is_logged(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forming, "SAY_WHY_AFTER_MS", 50)

    async def scenario() -> None:
        (port,) = await ports(1)
        waiting = asyncio.ensure_future(port.form([port.name, "127.0.0.1:1"]))
        await until(lambda: "127.0.0.1:1 does not answer" in caplog.text)
        waiting.cancel()
        close(port)

    with caplog.at_level(logging.WARNING):
        run(scenario)


def test_a_directory_id_is_on_disk_before_anybody_hears_of_it() -> None:
    async def scenario() -> None:
        first, second = await ports(2)
        waiting = asyncio.ensure_future(first.form([first.name, second.name]))
        await asyncio.sleep(0)

        known = load(first.disk.crash(), 1)

        assert known is not None
        assert not known.cluster_id
        waiting.cancel()
        close(first, second)

    run(scenario)


def test_a_name_is_looked_up(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        first, second = await ports(2)
        names = [f"localhost:{first.socket.port}", f"localhost:{second.socket.port}"]

        one, two = await asyncio.gather(first.form(names), second.form(names))

        assert one.cluster_id == two.cluster_id
        close(first, second)

    run(scenario)


def test_a_disk_that_refuses_is_told() -> None:
    class FullDisk(CrashingDisk):
        def rename(self, source: str, target: str) -> None:
            raise OSError(28, "No space left on device")

    async def scenario() -> None:
        port = await Port.open(1, disk=FullDisk())
        with pytest.raises(OSError, match="No space left"):
            await port.form([])
        close(port)

    run(scenario)
