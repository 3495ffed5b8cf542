import errno

import pytest

from ottla.testing.disk import CrashingDisk, Fault, Operation
from ottla.testing.disk_model import EVERYTHING_WRITTEN, NOTHING_UNSYNCED, Keep, Survival

ANY_SECTORS = Survival(data=Keep.ANY, names=Keep.EVERYTHING, sector_bytes=4)


def disk_with_synced(path: str, content: bytes) -> CrashingDisk:
    disk = CrashingDisk(seed=1)
    file = disk.open(path, create=True)
    file.pwritev([content], 0)
    file.sync()
    disk.sync_directory("")
    return disk


def content(disk: CrashingDisk, path: str) -> bytes:
    return disk.open(path).pread(1 << 20, 0)


def test_unsynced_bytes_are_seen_until_the_crash_and_lost_by_it() -> None:
    disk = disk_with_synced("a", b"old")
    disk.open("a").pwritev([b"new", b"er"], 0)

    assert content(disk, "a") == b"newer"
    assert content(disk.crash(NOTHING_UNSYNCED), "a") == b"old"
    assert content(disk.crash(EVERYTHING_WRITTEN), "a") == b"newer"


def test_synced_bytes_survive_whatever_the_crash_takes() -> None:
    disk = disk_with_synced("a", b"safe")

    assert {content(disk.crash(), "a") for _ in range(50)} == {b"safe"}


def test_a_new_name_is_lost_until_its_directory_is_synced() -> None:
    disk = CrashingDisk()
    disk.make_directory("d")
    file = disk.open("d/a", create=True)
    file.pwritev([b"x"], 0)
    file.sync()
    assert not disk.crash(NOTHING_UNSYNCED).exists("d")

    disk.sync_directory("")
    assert disk.crash(NOTHING_UNSYNCED).list("") == ["d"]
    assert disk.crash(NOTHING_UNSYNCED).list("d") == []

    disk.sync_directory("d")
    assert content(disk.crash(NOTHING_UNSYNCED), "d/a") == b"x"


def test_a_rename_replaces_its_target_at_once_or_not_at_all() -> None:
    disk = disk_with_synced("a", b"old")
    file = disk.open("a.tmp", create=True)
    file.pwritev([b"new"], 0)
    file.sync()
    disk.rename("a.tmp", "a")

    found = {content(disk.crash(), "a") for _ in range(60)}

    assert found == {b"old", b"new"}
    disk.sync_directory("")
    assert content(disk.crash(NOTHING_UNSYNCED), "a") == b"new"
    assert disk.crash(NOTHING_UNSYNCED).list("") == ["a"]


def test_syncing_the_target_directory_of_a_move_does_not_bring_the_source_back() -> None:
    disk = CrashingDisk()
    disk.make_directory("d")
    disk.open("a", create=True)
    disk.rename("a", "d/a")
    disk.sync_directory("d")
    disk.sync_directory("")

    after = disk.crash(NOTHING_UNSYNCED)

    assert after.list("") == ["d"]
    assert after.list("d") == ["a"]


def test_a_removed_name_may_come_back_until_its_directory_is_synced() -> None:
    disk = disk_with_synced("a", b"x")
    disk.remove("a")

    assert disk.crash(NOTHING_UNSYNCED).exists("a")
    disk.sync_directory("")
    assert not disk.crash(NOTHING_UNSYNCED).exists("a")


def test_sectors_survive_in_any_order_and_in_any_version() -> None:
    disk = disk_with_synced("a", b"........")
    disk.open("a").pwritev([b"11112222"], 0)
    disk.open("a").pwritev([b"3333"], 4)

    found = {content(disk.crash(ANY_SECTORS), "a") for _ in range(300)}

    assert found == {first + second for first in (b"....", b"1111") for second in (b"....", b"2222", b"3333")}


def test_the_size_may_survive_without_the_bytes_and_the_bytes_are_then_zero() -> None:
    disk = disk_with_synced("a", b"ab")
    disk.open("a").pwritev([b"cdefghij"], 2)

    found = {content(disk.crash(ANY_SECTORS), "a") for _ in range(300)}

    assert b"ab" in found
    assert b"ab" + bytes(8) in found
    assert b"ab" + bytes(2) + b"efgh" + bytes(2) in found
    assert b"abcdefghij" in found


def test_a_torn_write_keeps_its_first_bytes() -> None:
    disk = disk_with_synced("a", b"")
    disk.open("a").pwritev([b"abc"], 0)
    disk.open("a").pwritev([b"def"], 3)

    torn = disk.crash(Survival(data=Keep.PREFIX, names=Keep.NOTHING, prefix_bytes=4))

    assert content(torn, "a") == b"abcd"


def test_a_truncation_may_be_lost_and_the_old_tail_come_back() -> None:
    disk = disk_with_synced("a", b"abcdef")
    disk.open("a").truncate(2)

    assert content(disk, "a") == b"ab"
    assert content(disk.crash(NOTHING_UNSYNCED), "a") == b"abcdef"
    disk.open("a").sync()
    assert content(disk.crash(NOTHING_UNSYNCED), "a") == b"ab"


def test_the_same_seed_gives_the_same_crashes() -> None:
    def crashes(seed: int) -> list[bytes]:
        disk = CrashingDisk(seed=seed)
        disk.open("a", create=True).pwritev([bytes(range(200))], 0)
        disk.sync_directory("")
        return [content(disk.crash(), "a") for _ in range(20)]

    assert crashes(7) == crashes(7)
    assert crashes(7) != crashes(8)


def test_what_a_failed_sync_covered_is_not_written_by_the_next_one() -> None:
    disk = disk_with_synced("a", b"old")
    file = disk.open("a")
    disk.faults.append(Fault(operation=Operation.SYNC, times=1))
    file.pwritev([b"new"], 0)
    with pytest.raises(OSError, match="error") as failure:
        file.sync()
    file.sync()

    assert failure.value.errno == errno.EIO
    assert content(disk, "a") == b"new"
    assert content(disk.crash(EVERYTHING_WRITTEN), "a") == b"old"


def test_faults_strike_the_operations_that_they_name() -> None:
    disk = CrashingDisk()
    disk.faults.append(Fault(operation=Operation.WRITE, path_contains="b", skip=1, times=1))
    a, b = disk.open("a", create=True), disk.open("b", create=True)
    a.pwritev([b"1"], 0)
    b.pwritev([b"1"], 0)
    with pytest.raises(OSError, match="b"):
        b.pwritev([b"2"], 1)
    b.pwritev([b"3"], 1)

    assert content(disk, "b") == b"13"


def test_a_full_disk_takes_what_fits_and_refuses_the_rest() -> None:
    disk = CrashingDisk(capacity_bytes=10)
    file = disk.open("a", create=True)
    file.pwritev([b"12345678"], 0)
    with pytest.raises(OSError, match="space"):
        file.pwritev([b"abcd"], 8)

    assert content(disk, "a") == b"12345678ab"
    assert disk.free_bytes() == 0
    file.pwritev([b"over"], 0)
    disk.remove("a")
    assert disk.free_bytes() == 10


def test_a_flipped_bit_is_seen_now_and_after_a_crash() -> None:
    disk = disk_with_synced("a", b"\x00\x00")
    disk.flip_bit("a", 9)

    assert content(disk, "a") == content(disk.crash(), "a") == b"\x00\x02"


def test_a_sync_that_lies_keeps_nothing() -> None:
    disk = CrashingDisk(sync_lies=True)
    disk.open("a", create=True).sync()
    disk.sync_directory("")

    assert disk.crash(NOTHING_UNSYNCED).list("") == []
    assert disk.counters.syncs == 1


def test_every_change_can_be_interrupted() -> None:
    disk = CrashingDisk()
    seen: list[Operation] = []
    disk.before_operation = lambda operation, path: seen.append(operation)
    disk.make_directory("d")
    file = disk.open("d/a", create=True)
    file.pwritev([b"x"], 0)
    file.truncate(0)
    file.sync()
    disk.rename("d/a", "d/b")
    disk.remove("d/b")
    disk.sync_directory("d")

    assert sorted(seen) == sorted(Operation)


def test_missing_files_and_directories_are_told_apart() -> None:
    disk = CrashingDisk()
    disk.make_directory("d")
    with pytest.raises(FileNotFoundError):
        disk.open("d/a")
    with pytest.raises(FileNotFoundError):
        disk.open("e/a", create=True)
    with pytest.raises(IsADirectoryError):
        disk.open("d")
