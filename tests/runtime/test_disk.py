import errno
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.runtime import disk as disk_module
from ottla.runtime.disk import IOV_MAX, PIECE_BYTES, OsDisk


@pytest.fixture
def disk(tmp_path: Path) -> OsDisk:
    return OsDisk(str(tmp_path / "data"))


def _open_links() -> list[str]:
    links = []
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        except FileNotFoundError:
            continue
    return links


def test_what_was_written_is_read_back(disk: OsDisk) -> None:
    file = disk.open("a", create=True)

    assert file.pwritev([b"hello ", bytearray(b"wor"), memoryview(b"ld")], 0) == 11
    assert file.pread(100, 6) == b"world"
    assert file.size() == disk.size("a") == 11


def test_opening_a_missing_file_says_so(disk: OsDisk) -> None:
    with pytest.raises(FileNotFoundError):
        disk.open("missing")


def test_more_buffers_than_one_call_takes_are_all_written(disk: OsDisk) -> None:
    buffers = [b"%06d" % i for i in range(2 * IOV_MAX + 7)]
    file = disk.open("a", create=True)

    assert file.pwritev(buffers, 3) == len(buffers) * 6
    assert file.pread(1 << 20, 3) == b"".join(buffers)


def test_a_short_write_is_continued(disk: OsDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    real_pwrite = os.pwrite
    monkeypatch.setattr(os, "pwritev", lambda fd, buffers, at: real_pwrite(fd, b"".join(buffers)[:5], at))
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: real_pwrite(fd, data[:3], at))
    file = disk.open("a", create=True)

    assert file.pwritev([b"abc", b"", b"defg", b"hijklmn"], 2) == 14

    monkeypatch.undo()
    assert file.pread(100, 2) == b"abcdefghijklmn"


def test_a_full_disk_after_a_short_write_is_an_error(disk: OsDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int, data: bytes, at: int) -> int:
        raise OSError(errno.ENOSPC, "full")

    file = disk.open("a", create=True)
    monkeypatch.setattr(os, "pwritev", lambda fd, buffers, at: 2)
    monkeypatch.setattr(os, "pwrite", full)

    with pytest.raises(OSError, match="full"):
        file.pwritev([b"abcd"], 0)


def test_descriptors_stay_within_the_bound_and_every_file_still_works(tmp_path: Path) -> None:
    disk = OsDisk(str(tmp_path), open_files_max=4)
    files = [disk.open(f"f{i}", create=True) for i in range(20)]
    for i, file in enumerate(files):
        file.pwritev([b"%d" % i], 0)
        assert disk.open_files <= 4

    assert [file.pread(9, 0) for file in files] == [b"%d" % i for i in range(20)]
    assert sum(link.startswith(str(tmp_path)) for link in _open_links()) <= 4


def test_a_file_in_use_keeps_its_descriptor_while_idle_ones_lose_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = OsDisk(str(tmp_path), open_files_max=4)
    busy = disk.open("busy", create=True)
    others = [disk.open(f"f{i}", create=True) for i in range(12)]
    opened: list[str] = []
    real_open = os.open
    for other in others:
        other.pread(1, 0)
        busy.pread(1, 0)

    def counting_open(path: str, flags: int, mode: int) -> int:
        opened.append(path)
        return real_open(path, flags, mode)

    monkeypatch.setattr(os, "open", counting_open)
    for other in others:
        other.pread(1, 0)
        busy.pread(1, 0)

    assert not any(path.endswith("busy") for path in opened)
    assert len(opened) == 12


def test_a_descriptor_is_not_closed_under_a_sync_in_another_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = OsDisk(str(tmp_path), open_files_max=2)
    slow = disk.open("slow", create=True)
    entered, leave = threading.Event(), threading.Event()
    valid_after: list[bool] = []

    def fdatasync(descriptor: int) -> None:
        entered.set()
        assert leave.wait(10)
        valid_after.append(os.readlink(f"/proc/self/fd/{descriptor}").endswith("slow"))

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    thread = threading.Thread(target=slow.sync)
    thread.start()
    assert entered.wait(10)
    for i in range(10):
        disk.open(f"f{i}", create=True)
    slow.close()
    for i in range(10, 20):
        disk.open(f"f{i}", create=True)
    leave.set()
    thread.join()

    assert valid_after == [True]
    disk.open("last", create=True)
    assert disk.open_files <= 2


def test_threads_and_evictions_never_mix_up_files(tmp_path: Path) -> None:
    disk = OsDisk(str(tmp_path), open_files_max=3)
    files = [disk.open(f"f{i}", create=True) for i in range(8)]
    wrong: list[str] = []

    def work(start: int) -> None:
        for turn in range(400):
            i = (start + turn) % len(files)
            files[i].pwritev([b"%02d" % i], 2 * turn)
            if files[i].pread(2, 2 * turn) != b"%02d" % i:
                wrong.append(f"file {i}")

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert wrong == []
    for i, file in enumerate(files):
        assert set(file.pread(2000, 0).replace(b"%02d" % i, b"")) <= {0}


def test_a_closed_file_opens_itself_again(disk: OsDisk) -> None:
    file = disk.open("a", create=True)
    file.pwritev([b"x"], 0)
    file.close()

    assert disk.open_files == 0
    assert file.pread(1, 0) == b"x"


def test_directories_are_listed_renamed_and_removed(disk: OsDisk) -> None:
    disk.make_directory("t-0/deep")
    disk.open("t-0/b", create=True)
    disk.open("t-0/a", create=True)
    disk.sync_directory("t-0")

    assert disk.list("t-0") == ["a", "b", "deep"]
    assert disk.list("missing") == []
    disk.rename("t-0", "t-1")
    assert disk.exists("t-1/a")
    assert not disk.exists("t-0")
    disk.remove("t-1/a")
    disk.remove("t-1/a")
    assert disk.list("t-1") == ["b", "deep"]
    disk.remove_tree("t-1")
    disk.remove_tree("t-1")
    assert disk.list("") == []


def test_truncating_and_allocating_change_the_size_as_promised(disk: OsDisk) -> None:
    file = disk.open("a", create=True)
    file.pwritev([b"abcdef"], 0)
    file.truncate(3)
    file.allocate(1 << 20)

    assert file.size() == 3
    assert os.stat(f"{disk.root}/a").st_blocks * 512 >= 1 << 20
    assert disk.free_bytes() > 0


def failing(error: int) -> Callable[..., None]:
    def call(*_: object) -> None:
        raise OSError(error, os.strerror(error))

    return call


class TestInPieces:
    @pytest.fixture
    def calls(self, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int] | str]:
        """What a sync in pieces asks for: stretches, and syncs."""
        calls: list[tuple[int, int] | str] = []
        write_back, fdatasync = disk_module._write_back, os.fdatasync

        def noted_write_back(descriptor: int, position: int, size: int) -> bool:
            calls.append((position, size))
            return write_back(descriptor, position, size)

        def noted_sync(descriptor: int) -> None:
            calls.append("sync")
            fdatasync(descriptor)

        monkeypatch.setattr(disk_module, "_write_back", noted_write_back)
        monkeypatch.setattr(os, "fdatasync", noted_sync)
        return calls

    def test_each_is_written_by_itself_and_a_sync_follows(
        self, disk: OsDisk, calls: list[tuple[int, int] | str]
    ) -> None:
        file = disk.open("a", create=True)
        file.pwritev([bytes(3 * PIECE_BYTES)], 0)
        file.sync_in_pieces(PIECE_BYTES - 1)

        first = PIECE_BYTES - 1
        pieces = [(first, PIECE_BYTES), (first + PIECE_BYTES, PIECE_BYTES), (first + 2 * PIECE_BYTES, PIECE_BYTES)]
        assert calls == [*pieces, "sync"]

    def test_a_file_that_has_become_shorter_is_synced_too(
        self, disk: OsDisk, calls: list[tuple[int, int] | str]
    ) -> None:
        file = disk.open("a", create=True)
        file.pwritev([b"abc"], 0)
        file.sync_in_pieces(10)
        assert calls == ["sync"]

    @pytest.mark.parametrize("error", [errno.ENOSYS, errno.EPERM, errno.EINVAL])
    def test_where_the_system_can_t_it_is_one_sync(
        self, disk: OsDisk, calls: list[tuple[int, int] | str], monkeypatch: pytest.MonkeyPatch, error: int
    ) -> None:
        monkeypatch.setattr(disk_module, "_sync_file_range", failing(error))
        file = disk.open("a", create=True)
        file.pwritev([bytes(3 * PIECE_BYTES)], 0)
        file.sync_in_pieces(0)
        assert calls == [(0, PIECE_BYTES), "sync"]

    def test_an_error_of_the_disk_is_one_of_the_sync(
        self, disk: OsDisk, calls: list[tuple[int, int] | str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(disk_module, "_sync_file_range", failing(errno.EIO))
        file = disk.open("a", create=True)
        file.pwritev([b"abc"], 0)
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            file.sync_in_pieces(0)
        assert calls == [(0, PIECE_BYTES)]

    def test_the_system_is_heard(self, disk: OsDisk) -> None:
        """A closed descriptor is an error of the real call."""
        file = disk.open("a", create=True)
        file.pwritev([b"abc"], 0)
        descriptor = os.open(f"{disk.root}/a", os.O_RDONLY)
        assert disk_module._write_back(descriptor, 0, PIECE_BYTES)
        os.close(descriptor)
        with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
            disk_module._write_back(descriptor, 0, PIECE_BYTES)


def test_the_whole_disk_can_be_synced(tmp_path: Path) -> None:
    """What it promises can't be seen without a power cut; that it asks the system, and hears its answer, can."""
    disk = OsDisk(str(tmp_path))
    disk.open("a", create=True).pwritev([b"x"], 0)
    disk.sync()
    gone = OsDisk(str(tmp_path / "gone"))
    shutil.rmtree(tmp_path / "gone", ignore_errors=True)
    with pytest.raises(FileNotFoundError):
        gone.sync()


def test_no_more_files_are_kept_open_than_three_quarters_of_what_the_process_may_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (1_000, 50_000))
    assert OsDisk(str(tmp_path), open_files_max=16_384).open_files_max == 750
    assert OsDisk(str(tmp_path), open_files_max=100).open_files_max == 100


def test_a_node_of_its_own_may_open_as_many_files_as_the_system_lets_it() -> None:
    code = (
        "import resource; from ottla.runtime.disk import allow_open_files;"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 900)); allow_open_files();"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "(900, 900)"
