"""The file of high watermarks."""

from types import SimpleNamespace
from typing import Any, cast

from ottla.runtime.high_watermarks import HIGH_WATERMARKS, HighWatermarks
from ottla.testing.disk import CrashingDisk, Fault, Operation
from ottla.types import TopicPartition


def watermarks(disk: CrashingDisk, **replicas: int) -> HighWatermarks:
    timers = SimpleNamespace(after_ms=lambda *_: None)
    made = HighWatermarks(disk, timers=cast(Any, timers), interval_ms=5_000)
    known = [SimpleNamespace(topic=name, index=0, high_watermark=offset) for name, offset in replicas.items()]
    made.start(lambda: cast(Any, known))
    return made


def content(disk: CrashingDisk) -> bytes:
    file = disk.open(HIGH_WATERMARKS)
    return file.pread(file.size(), 0)


def test_what_is_written_is_known_to_the_next_run() -> None:
    disk = CrashingDisk()
    watermarks(disk, a=5, b=7).write()
    assert watermarks(disk).of(TopicPartition("b", 0)) == 7
    assert watermarks(disk).of(TopicPartition("c", 0)) == 0


def test_the_format_is_kafkas() -> None:
    disk = CrashingDisk()
    watermarks(disk, a=5).write()
    assert content(disk) == b"0\n1\na 0 5\n"


def test_a_damaged_file_says_nothing() -> None:
    disk = CrashingDisk()
    disk.open(HIGH_WATERMARKS, create=True).pwritev((b"0\n2\na 0 5\n",), 0)
    assert watermarks(disk).of(TopicPartition("a", 0)) == 0


def test_a_full_disk_leaves_the_old_file() -> None:
    disk = CrashingDisk()
    watermarks(disk, a=5).write()
    later = watermarks(disk, a=6)
    disk.faults.append(Fault(operation=Operation.WRITE))
    later.write()
    assert content(disk) == b"0\n1\na 0 5\n"
