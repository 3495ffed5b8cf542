import struct
from collections.abc import Callable

import pytest

from ottla.storage.log import Origin
from ottla.storage.verify import verify_log_directory
from ottla.testing.disk import CrashingDisk
from tests.storage.batches import DIRECTORY, append, batch, fill, marker, open_log, read_file, write_file

BATCH_BYTES = len(batch(bytes(100)))
FIRST, SECOND = f"{0:020d}", f"{3:020d}"


@pytest.fixture
def disk() -> CrashingDisk:
    """A log of two segments, three batches each, an index entry for every batch but the first."""
    disk = CrashingDisk()
    log = open_log(disk, segment_bytes=3 * BATCH_BYTES, index_interval_bytes=0)
    fill(log, 5)
    log.close()
    return disk


def problems(disk: CrashingDisk) -> list[str]:
    return [str(problem) for problem in verify_log_directory(disk, DIRECTORY).problems]


def test_a_sound_log(disk: CrashingDisk) -> None:
    report = verify_log_directory(disk, DIRECTORY)

    assert report.is_sound
    assert (report.segments, report.batches, report.records) == (2, 5, 5)
    assert (report.start_offset, report.end_offset, report.size_bytes) == (0, 5, 5 * BATCH_BYTES)


def test_a_directory_that_is_not_there_is_empty_and_sound() -> None:
    report = verify_log_directory(CrashingDisk(), DIRECTORY)

    assert report.is_sound
    assert report.segments == 0


def test_transactions_are_checked_too() -> None:
    disk = CrashingDisk()
    log = open_log(disk)
    append(log, batch(b"a", producer_id=7, epoch=0, sequence=0, transactional=True))
    append(log, marker(commits=False, producer_id=7), origin=Origin.COORDINATOR)
    log.close()
    assert problems(disk) == []

    write_file(disk, f"{FIRST}.txnindex", struct.pack(">hqqqq", 0, 7, 0, 9, 10))

    assert problems(disk) == [f"t-0/{FIRST}.txnindex: there is no transaction marker at offset 9"]


def changed(name: str, change: Callable[[bytes], bytes]) -> Callable[[CrashingDisk], None]:
    return lambda disk: write_file(disk, name, change(read_file(disk, name)))


def at(position: int, value: bytes) -> Callable[[bytes], bytes]:
    return lambda data: data[:position] + value + data[position + len(value) :]


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (changed(f"{FIRST}.log", at(BATCH_BYTES + 80, b"!")), f"{FIRST}.log at {BATCH_BYTES}: the checksum"),
        (changed(f"{SECOND}.log", lambda data: data + b"torn"), f"{SECOND}.log at {2 * BATCH_BYTES}: the batch"),
        (changed(f"{FIRST}.log", at(BATCH_BYTES + 16, b"\1")), f"{FIRST}.log at {BATCH_BYTES}: no record batch"),
        (changed(f"{FIRST}.log", at(BATCH_BYTES, bytes(8))), "offsets 0 to 0 do not follow 0"),
        (changed(f"{FIRST}.log", at(12, b"\0\0\0\7")), "leader epoch 0 after 7"),
        (changed(f"{FIRST}.index", at(0, struct.pack(">ii", 1, 9))), "no batch with last offset 1 starts at 9"),
        (
            changed(f"{FIRST}.index", at(0, struct.pack(">i", 0))),
            f"0 is not the last offset of the batch at {BATCH_BYTES}",
        ),
        (changed(f"{FIRST}.index", lambda data: data + data[:8]), f"{FIRST}.index at 16: OffsetEntry"),
        (changed(f"{FIRST}.index", lambda data: data + b"x"), f"{FIRST}.index at 16: the last entry is not whole"),
        (changed(f"{FIRST}.timeindex", at(0, struct.pack(">q", 5))), "5 is not the largest timestamp up to offset 1"),
        (changed(f"{FIRST}.timeindex", at(8, struct.pack(">i", 99))), "no batch ends at offset 99"),
        (changed(f"{FIRST}.timeindex", lambda data: data[:12]), "the largest timestamp of the segment"),
        (changed(f"{FIRST}.timeindex", lambda data: data[12:] + data[:12]), f"{FIRST}.timeindex at 12: TimeEntry"),
        (changed(f"{SECOND}.snapshot", lambda data: data[:-1]), f"{SECOND}.snapshot: "),
        (changed("leader-epoch-checkpoint", lambda data: b"0\n1\n0 99\n"), "epoch 0 begins at 99, the log ends at 5"),
        (changed("leader-epoch-checkpoint", lambda data: b"nonsense"), "leader-epoch-checkpoint: "),
        (lambda disk: write_file(disk, f"{77:020d}.index", b""), "there is no segment for this index"),
        (lambda disk: disk.remove(f"{DIRECTORY}/{FIRST}.index"), f"{FIRST}.index: the index is missing"),
        (lambda disk: disk.remove(f"{DIRECTORY}/{FIRST}.timeindex"), f"{FIRST}.timeindex: the index is missing"),
    ],
)
def test_damage_is_found_and_its_place_told(
    disk: CrashingDisk, damage: Callable[[CrashingDisk], None], sentence: str
) -> None:
    damage(disk)

    assert any(sentence in problem for problem in problems(disk)), problems(disk)


def test_segments_that_overlap_are_told(disk: CrashingDisk) -> None:
    write_file(disk, f"{2:020d}.log", read_file(disk, f"{SECOND}.log"))

    assert any("the segment before it ends at 3" in problem for problem in problems(disk))


def test_verifying_changes_nothing(disk: CrashingDisk) -> None:
    writes = disk.counters.writes

    verify_log_directory(disk, DIRECTORY)

    assert disk.counters.writes == writes
