import pytest

from ottla.storage.index_file import IndexFile
from ottla.testing.disk import CrashingDisk


@pytest.fixture
def disk() -> CrashingDisk:
    return CrashingDisk()


def test_the_file_is_made_with_the_first_entries(disk: CrashingDisk) -> None:
    file = IndexFile(disk, "i", 4)
    assert not disk.exists("i")

    file.append(b"aaaabbbb")

    assert disk.size("i") == 8
    assert file.count == 2


def test_a_torn_entry_at_the_end_is_not_seen_and_is_written_over(disk: CrashingDisk) -> None:
    disk.open("i", create=True).pwritev((b"aaaabb",), 0)

    file = IndexFile(disk, "i", 4)
    assert file.read(0, 9) == b"aaaa"
    file.append(b"cccc")

    assert file.read(0, 9) == b"aaaacccc"


def test_a_torn_entry_is_cut_off_with_a_truncation(disk: CrashingDisk) -> None:
    disk.open("i", create=True).pwritev((b"aaaabb",), 0)

    IndexFile(disk, "i", 4).truncate(1)

    assert disk.size("i") == 4


def test_the_first_entry_from_which_something_holds_is_found(disk: CrashingDisk) -> None:
    file = IndexFile(disk, "i", 1)
    file.append(bytes([1, 3, 5, 7]))

    assert [file.first_where(bytes([at]).__le__) for at in (0, 3, 4, 8)] == [0, 1, 2, 4]


def test_truncating_to_what_there_is_does_not_touch_the_file(disk: CrashingDisk) -> None:
    IndexFile(disk, "i", 4).truncate(0)

    assert not disk.exists("i")


def test_only_what_has_changed_is_to_be_synced(disk: CrashingDisk) -> None:
    file = IndexFile(disk, "i", 4)
    assert file.sync_target() is None

    file.append(b"aaaa")

    assert file.sync_target() is not None
    assert file.sync_target() is None


def test_a_new_name_is_told_once(disk: CrashingDisk) -> None:
    file = IndexFile(disk, "i", 4)
    assert not file.take_new_name()

    file.ensure_exists()

    assert [file.take_new_name(), file.take_new_name()] == [True, False]
    assert not IndexFile(disk, "i", 4).take_new_name()
