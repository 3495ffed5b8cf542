"""A node that dies at any step of a transaction: what the next start makes of it.

Whatever was decided is carried out, in every partition or in none; nothing stays open; a producer that was told of a
commit finds it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import pytest

from ottla.testing.disk import CrashingDisk, Operation
from ottla.testing.disk_model import EVERYTHING_WRITTEN, NOTHING_UNSYNCED, Survival
from tests.node_rig import NodeRig, with_node
from tests.transactions.client import Client, committed, fetch_committed

PARTITIONS = 3
TRANSACTIONS = 4
EVERY = int(os.environ.get("CRASH_EVERY", "8"))
"""Each crash is a start of a node: not all of them in every run."""
SURVIVALS = (EVERYTHING_WRITTEN, NOTHING_UNSYNCED, None)
"""The process is killed; the machine is; anything that the model allows."""


@dataclass(slots=True)
class Crashed:
    """What a crash has left, and what clients had been told by then."""

    disk: CrashingDisk
    when: str
    commits: set[bytes]
    aborts: set[bytes]


class Recorder:
    """Takes a copy of what a crash would leave, before each operation of the disk."""

    def __init__(self) -> None:
        self.crashes: list[Crashed] = []
        self.commits: set[bytes] = set()
        self.aborts: set[bytes] = set()
        self._busy = False

    def follow(self, disk: CrashingDisk) -> None:
        def before(operation: Operation, path: str) -> None:
            if not self._busy:
                self._busy = True  # a checkpoint in a thread must not get in between
                for survival in SURVIVALS:
                    self._crash(disk, f"before {operation} {path}", survival)
                self._busy = False

        disk.before_operation = before

    def _crash(self, disk: CrashingDisk, when: str, survival: Survival | None) -> None:
        left = disk.crash(survival)
        self.crashes.append(Crashed(left, f"{when}, {survival}", set(self.commits), set(self.aborts)))


async def _checkpoint(rig: NodeRig) -> None:
    """Now the journal holds nothing of any log."""
    job = rig.node._logs.checkpoint()
    while job is not None:
        job.run()
        job = job.finish()


@pytest.mark.parametrize("checkpoints", [False, True])
@pytest.mark.parametrize("version", [1, 2])
def test_a_crash_leaves_no_transaction_half_done(version: int, checkpoints: bool) -> None:
    recorder = Recorder()

    async def write(rig: NodeRig) -> None:
        await rig.create("t", PARTITIONS)
        client = Client(rig, version)
        await client.init()
        await client.write("t", b"first", partition=0)
        await client.end(commits=True)
        recorder.follow(rig.disk)
        for number in range(TRANSACTIONS):
            commits, value = number % 2 == 0, b"%d" % number
            if checkpoints:
                await _checkpoint(rig)
            if version < 2:
                await client.add(*(("t", index) for index in range(PARTITIONS)))
            assert await client.send_to("t", range(PARTITIONS), value) == [0] * PARTITIONS
            if checkpoints:
                await _checkpoint(rig)
            assert (await client.end(commits)).error_code == 0
            (recorder.commits if commits else recorder.aborts).add(value)
        rig.disk.before_operation = None

    with_node(write)
    assert len(recorder.crashes) > 50
    for crashed in recorder.crashes[version - 1 :: EVERY]:
        _check(crashed, version)


def _check(crashed: Crashed, version: int) -> None:
    found: dict[str, Any] = {}

    async def look(rig: NodeRig) -> None:
        client = Client(rig, version)
        assert (await client.init()).error_code == 0, crashed.when
        for index in range(PARTITIONS):
            data = await fetch_committed(rig, "t", index)
            assert data.last_stable_offset == data.high_watermark, f"{crashed.when}: a transaction hangs in {index}"
            found[str(index)] = [value for value in await committed(rig, "t", index) if value != b"first"]

    with_node(look, disk=crashed.disk)
    assert found["0"] == found["1"] == found["2"], crashed.when
    values = set(found["0"])
    assert len(values) == len(found["0"]), f"{crashed.when}: twice"
    assert crashed.commits <= values, f"{crashed.when}: a commit is lost"
    assert not crashed.aborts & values, f"{crashed.when}: an abort is read"
