import pytest

from ottla.errors import StorageError
from ottla.storage.pending import MANY_SYNCS, DirectorySync, FileSync, ReplaceFile, name_syncs, sync_many
from ottla.testing.disk import CrashingDisk, Fault, Operation
from ottla.testing.disk_model import EVERYTHING_WRITTEN, NOTHING_UNSYNCED, Keep, Survival
from tests.storage.batches import DIRECTORY, NOW_MS, batch, contents, open_log


@pytest.fixture
def disk() -> CrashingDisk:
    return CrashingDisk()


def test_a_write_is_durable_when_its_files_are_synced(disk: CrashingDisk) -> None:
    log = open_log(disk, segment_bytes=250)
    for number in range(5):
        log.append_as_leader(batch(bytes(100), timestamp_ms=NOW_MS + number), leader_epoch=0, now_ms=NOW_MS)
    write = log.take_pending()
    assert write is not None

    write.run()
    for target in write.files():
        target.sync()

    recovered = open_log(disk.crash(NOTHING_UNSYNCED), clean=False)
    assert [offset for offset, _ in contents(recovered)] == [0, 1, 2, 3, 4]


def test_a_write_that_is_not_synced_may_be_lost(disk: CrashingDisk) -> None:
    log = open_log(disk)
    log.append_as_leader(batch(b"a"), leader_epoch=0, now_ms=NOW_MS)

    log.write_pending()

    assert contents(open_log(disk.crash(NOTHING_UNSYNCED), clean=False)) == []


def test_files_that_are_gone_need_no_sync(disk: CrashingDisk) -> None:
    class Gone:
        path = "gone"

        def sync(self) -> None:
            raise FileNotFoundError

    FileSync(Gone()).sync()  # type: ignore[arg-type]  # all that is asked of it
    DirectorySync(disk, "gone").sync()
    ReplaceFile(disk, "gone/file", b"new").sync()


def test_other_errors_of_a_sync_are_not_hidden() -> None:
    class Failing:
        path = "failing"

        def sync(self) -> None:
            raise StorageError("EIO")

    with pytest.raises(StorageError):
        FileSync(Failing()).sync()  # type: ignore[arg-type]  # all that is asked of it


@pytest.mark.parametrize("names", list(Keep))
def test_a_replaced_file_is_the_old_one_or_the_new_one(disk: CrashingDisk, names: Keep) -> None:
    disk.make_directory(DIRECTORY)
    path = f"{DIRECTORY}/file"
    ReplaceFile(disk, path, b"old content").sync()
    for target in name_syncs(disk, DIRECTORY):
        target.sync()

    ReplaceFile(disk, path, b"new").sync()

    after = disk.crash(Survival(data=Keep.NOTHING, names=names))
    assert after.open(path).pread(99, 0) in (b"old content", b"new")
    assert disk.crash(EVERYTHING_WRITTEN).open(path).pread(99, 0) == b"new"


def test_a_directory_is_found_after_a_crash_once_its_own_name_is_synced(disk: CrashingDisk) -> None:
    disk.make_directory(DIRECTORY)
    disk.open(f"{DIRECTORY}/file", create=True)

    for target in name_syncs(disk, DIRECTORY):
        target.sync()

    assert disk.crash(NOTHING_UNSYNCED).list(DIRECTORY) == ["file"]


def test_a_great_many_files_are_synced_by_one_sync_of_the_disk_and_replaced_as_a_whole(disk: CrashingDisk) -> None:
    disk.make_directory("d")
    files = [disk.open(f"d/{n}", create=True) for n in range(MANY_SYNCS)]
    for file in files:
        file.pwritev([b"x"], 0)
    old = ReplaceFile(disk, "d/epochs", b"old")
    sync_many(disk, [old, DirectorySync(disk, "d"), DirectorySync(disk, "")])

    sync_many(disk, [*map(FileSync, files), ReplaceFile(disk, "d/epochs", b"new"), DirectorySync(disk, "d")])

    after = disk.crash(Survival(data=Keep.NOTHING, names=Keep.NOTHING))
    assert [after.open(f"d/{n}").pread(9, 0) for n in range(MANY_SYNCS)] == [b"x"] * MANY_SYNCS
    assert after.open("d/epochs").pread(9, 0) == b"new"
    assert disk.counters.directory_syncs == 2 + 2


def test_a_failed_sync_of_many_is_an_error_and_puts_nothing_in_place(disk: CrashingDisk) -> None:
    disk.make_directory("d")
    files = [disk.open(f"d/{n}", create=True) for n in range(MANY_SYNCS)]
    ReplaceFile(disk, "d/epochs", b"old").sync()
    disk.faults.append(Fault(operation=Operation.SYNC, times=1))

    with pytest.raises(OSError, match="error"):
        sync_many(disk, [*map(FileSync, files), ReplaceFile(disk, "d/epochs", b"new")])

    assert disk.open("d/epochs").pread(9, 0) == b"old"
