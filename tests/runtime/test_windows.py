"""Views of files: the same bytes as a read, in bounded room, and no harm where a page can't be read."""

import errno
import os
import random
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.runtime.disk import OsDisk, OsFile
from ottla.runtime.windows import MAPPED_BYTES, OVERLAP_BYTES, WINDOW_BYTES

SIZE = 3 * WINDOW_BYTES + OVERLAP_BYTES + 12_345
DATA = random.Random(7).randbytes(SIZE)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[OsDisk]:
    disk = OsDisk(str(tmp_path), mapped_bytes_max=2 * MAPPED_BYTES)
    yield disk
    disk.close()


def filled(disk: OsDisk, name: str = "segment") -> OsFile:
    file = disk.open(name, create=True)
    file.pwritev([DATA], 0)
    return file


def mapped(disk: OsDisk) -> list[str]:
    with open("/proc/self/maps") as maps:
        return [line for line in maps if disk.root in line]


def is_mapped(view: object) -> bool:
    return isinstance(view, memoryview)


def test_a_view_has_the_bytes_of_a_read_wherever_it_lies(disk: OsDisk) -> None:
    file = filled(disk)
    chosen = random.Random(11)
    edges = [edge + shift for edge in range(0, SIZE, WINDOW_BYTES) for shift in (-1, 0, 1) if edge + shift >= 0]
    views = 0
    for position in [*edges, *(chosen.randrange(SIZE) for _ in range(200))]:
        size = min(chosen.choice((1, 4_096, 65_537, OVERLAP_BYTES)), SIZE - position)
        view = file.view(size, position, SIZE)
        assert bytes(view) == DATA[position : position + size]
        views += is_mapped(view)
    assert views > 100


def test_a_read_of_up_to_the_overlap_lies_in_one_window_wherever_it_begins(disk: OsDisk) -> None:
    file = filled(disk)

    assert is_mapped(file.view(OVERLAP_BYTES, WINDOW_BYTES - 1, SIZE))
    assert not is_mapped(file.view(OVERLAP_BYTES + 2, WINDOW_BYTES - 1, SIZE))


def test_what_is_not_in_the_file_for_good_is_not_mapped(disk: OsDisk) -> None:
    file = filled(disk)

    assert not is_mapped(file.view(4_096, 0, MAPPED_BYTES - 1))
    assert is_mapped(file.view(4_096, 0, MAPPED_BYTES))


def test_a_file_that_is_shorter_than_it_should_be_is_read(disk: OsDisk) -> None:
    file = filled(disk)
    file.truncate(MAPPED_BYTES - 1)

    assert file.view(4_096, 0, SIZE) == DATA[:4_096]


def test_windows_stay_within_the_bound_and_what_is_being_sent_stays(disk: OsDisk) -> None:
    file = filled(disk)
    first = file.view(4_096, 0, SIZE)
    for number in (1, 2):
        file.view(4_096, number * WINDOW_BYTES, SIZE)
        assert disk.windows.mapped_bytes <= 2 * MAPPED_BYTES

    assert len(mapped(disk)) == 3
    assert bytes(first) == DATA[:4_096]
    del first
    assert len(mapped(disk)) == 2


def test_the_window_that_was_used_last_stays(disk: OsDisk) -> None:
    file = filled(disk)
    for number in (0, 1, 0, 2):
        file.view(4_096, number * WINDOW_BYTES, SIZE)

    assert disk.windows.find(file, 0) is not None
    assert disk.windows.find(file, 1) is None


@pytest.mark.parametrize("end", [OsFile.close, lambda file: file.truncate(10)], ids=["close", "cut"])
def test_a_file_that_is_closed_or_cut_is_not_mapped_any_more(disk: OsDisk, end) -> None:  # type: ignore[no-untyped-def]
    file, other = filled(disk), filled(disk, "other")
    file.view(4_096, 0, SIZE)
    other.view(4_096, 0, SIZE)
    end(file)

    assert len(mapped(disk)) == 1
    assert disk.windows.find(other, 0) is not None


def test_nothing_is_mapped_unless_there_is_room_for_it(tmp_path: Path) -> None:
    disk = OsDisk(str(tmp_path))

    assert filled(disk).view(4_096, 0, SIZE) == DATA[:4_096]
    assert mapped(disk) == []


def test_a_page_that_cannot_be_read_fails_the_send_and_not_the_process(disk: OsDisk) -> None:
    file = filled(disk)
    view = file.view(OVERLAP_BYTES, 0, SIZE)
    os.truncate(f"{disk.root}/segment", 4_096)
    sender, receiver = socket.socketpair()
    with sender, receiver, pytest.raises(OSError, match=os.strerror(errno.EFAULT)):
        sender.send(view[8_192:])

    disk.windows.stop()
    assert not disk.windows.is_open
    assert file.view(4_096, 0, SIZE) == DATA[:4_096]
    del view
    assert mapped(disk) == []
