"""A sync by the kernel, and that who asks for one gets a plain one where there is none."""

import ctypes
import errno
import os
import struct
from pathlib import Path
from typing import Any

import pytest

from ottla.runtime.disk import OsDisk, OsFile
from ottla.runtime.kernel_sync import KernelSync


@pytest.fixture
def disk(tmp_path: Path) -> OsDisk:
    return OsDisk(str(tmp_path / "data"))


class Syncs:
    """Counts the plain ones."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.plain = 0
        self._sync = os.fdatasync
        patch.setattr(os, "fdatasync", self)

    def __call__(self, descriptor: int) -> None:
        self.plain += 1
        self._sync(descriptor)


def written(disk: OsDisk) -> OsFile:
    file = disk.open("a", create=True)
    file.pwritev([b"x" * 10_000], 0)
    return file


def test_the_kernel_syncs_one_after_the_other(disk: OsDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    if not disk.kernel_sync().is_possible:
        pytest.skip("this system has no asynchronous I/O")
    syncs = Syncs(monkeypatch)
    file = written(disk)
    for position in range(3):
        file.pwritev([b"y"], position)
        file.begin_sync()()
    assert syncs.plain == 0
    disk.close()


def test_while_one_is_under_way_another_is_a_plain_one(disk: OsDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs = Syncs(monkeypatch)
    disk.kernel_sync()._busy = True
    written(disk).begin_sync()()
    assert syncs.plain == 1


def test_where_there_is_none_it_is_a_plain_one(disk: OsDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "abacus")
    syncs = Syncs(monkeypatch)
    written(disk).begin_sync()()
    assert not disk.kernel_sync().is_possible
    assert syncs.plain == 1
    disk.close()


def test_what_can_not_be_synced_is_not_begun() -> None:
    reader, writer = os.pipe()
    sync = KernelSync()
    try:
        assert not sync.begin(writer)
    finally:
        os.close(reader)
        os.close(writer)
    assert not sync.begin(writer)
    sync.close()
    assert not sync.begin(writer)


def test_an_error_of_the_sync_is_told_and_the_file_can_be_closed(disk: OsDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(disk)
    sync = disk.kernel_sync()
    if not sync.is_possible:
        pytest.skip("this system has no asynchronous I/O")
    end = file.begin_sync()
    call: Any = sync._call
    interrupted = iter([True])

    def fails(number: Any, *arguments: Any) -> int:
        if next(interrupted, False):
            ctypes.set_errno(errno.EINTR)
            return -1
        got = int(call(number, *arguments))
        sync._event.raw = bytes(16) + struct.pack("<qq", -errno.EIO, 0)
        return got

    monkeypatch.setattr(sync, "_call", fails)
    with pytest.raises(OSError, match="Input/output error") as failure:
        end()
    assert failure.value.errno == errno.EIO
    assert not file.is_pinned()


def test_its_descriptor_stays_until_it_has_ended(tmp_path: Path) -> None:
    disk = OsDisk(str(tmp_path), open_files_max=16)
    file = written(disk)
    end = file.begin_sync()
    others = [disk.open(f"other-{number}", create=True) for number in range(40)]
    for other in others:
        other.pwritev([b"z"], 0)
    if disk.kernel_sync().is_possible:
        assert file.is_pinned()
        assert file._descriptor >= 0
    end()
    assert not file.is_pinned()
    disk.close()
