"""Compaction in a process of its own, on a real disk."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import pytest

from ottla.config import CleanerConfig, LogConfig
from ottla.errors import CorruptBatchError, StorageError
from ottla.runtime import priority
from ottla.runtime.cleaning_process import CleaningProcess, Pace, Patience
from ottla.runtime.disk import OsDisk
from ottla.storage.compaction_plan import Plan, task_of
from ottla.storage.compaction_swap import Swap
from ottla.storage.compaction_task import Task
from ottla.storage.log import Log
from ottla.storage.verify import verify_log_directory
from tests.storage.batches import DIRECTORY, NOW_MS, PARTITION, TOPIC_ID, append
from tests.storage.compacting import COMPACTED, keyed, pairs_of, planned, put_in_place

T = TypeVar("T")


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    disk = OsDisk(str(tmp_path))
    config = LogConfig(cleanup_policy=COMPACTED, segment_bytes=10_000)
    log = Log.open(disk, DIRECTORY, PARTITION, TOPIC_ID, config, clean=True, now_ms=NOW_MS)
    for number in range(300):
        append(log, keyed((b"k%d" % (number % 3), b"%03d" % number)))
    log.roll(NOW_MS)
    yield log
    disk.close()


def plan_of(log: Log) -> Plan:
    found = planned(log)
    assert found is not None
    return found


def test_what_the_process_writes_takes_the_place_of_the_log(log: Log, tmp_path: Path) -> None:
    found = plan_of(log)

    done = CleaningProcess(str(tmp_path)).compact(task_of(found, CleanerConfig(), now_ms=NOW_MS))
    put_in_place(Swap(found, done))

    assert pairs_of(log) == [(number, b"k%d" % (number % 3), b"%03d" % number) for number in (297, 298, 299)]
    log.close()
    assert verify_log_directory(log.disk, DIRECTORY).problems == ()


def test_damage_is_told_from_other_trouble(log: Log, tmp_path: Path) -> None:
    task = task_of(plan_of(log), CleanerConfig(), now_ms=NOW_MS)
    log.segments[0].file().pwritev([b"\xff"], 65)

    with pytest.raises(CorruptBatchError, match="checksum"):
        CleaningProcess(str(tmp_path)).compact(task)
    with pytest.raises(StorageError, match="No such file"):
        CleaningProcess(str(tmp_path / "elsewhere")).compact(task)


def test_it_ends_soon_when_it_is_cancelled(log: Log, tmp_path: Path) -> None:
    task = task_of(plan_of(log), CleanerConfig(io_max_bytes_per_second=1024.0), now_ms=NOW_MS)
    process = CleaningProcess(str(tmp_path))
    threading.Timer(0.2, process.cancel).start()
    began = time.monotonic()

    with pytest.raises(StorageError, match="ended with -9"):
        process.compact(task)

    assert time.monotonic() - began < 10


PARENT = """
import sys
from ottla.runtime.cleaning_process import CleaningProcess
from ottla.storage.compaction_task import Task
CleaningProcess(sys.argv[1]).compact(Task.from_json(sys.stdin.read()))
"""


def test_it_takes_the_processor_and_the_disk_when_nobody_else_wants_them(log: Log, tmp_path: Path) -> None:
    task = task_of(plan_of(log), CleanerConfig(io_max_bytes_per_second=1024.0), now_ms=NOW_MS)
    process = CleaningProcess(str(tmp_path))
    thread = threading.Thread(target=lambda: suppressed(process, task))
    thread.start()
    try:
        (child,) = wait_for(lambda: [pid for pid in children_of(os.getpid()) if is_cleaner(pid, tmp_path)])
        wait_for(lambda: os.sched_getscheduler(child) == os.SCHED_IDLE)
        wait_for(lambda: "idle" in subprocess.check_output(["ionice", "-p", str(child)], text=True))
        assert os.getpriority(os.PRIO_PROCESS, child) >= priority.NICENESS
    finally:
        process.cancel()
        thread.join()


def suppressed(process: CleaningProcess, task: Task) -> None:
    with suppress(StorageError):
        process.compact(task)


TAKES_PART = """
import os
from ottla.runtime import priority
priority.step_aside()
priority.take_part()
print(os.sched_getscheduler(0) == os.SCHED_BATCH, flush=True)
os.execvp("ionice", ["ionice"])
"""


def test_after_a_while_it_takes_a_share() -> None:
    """In a process of its own: what it does can't be undone."""
    done = subprocess.run([sys.executable, "-c", TAKES_PART], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines() == ["True", "best-effort: prio 7"]


def test_patience_is_lost_once() -> None:
    lost: list[None] = []
    patient, impatient = Patience(3600, lambda: lost.append(None)), Patience(-1, lambda: lost.append(None))
    for one in (patient, impatient, impatient):
        one.check()

    assert lost == [None]


def test_it_does_not_outlive_a_broker_that_is_killed(log: Log, tmp_path: Path) -> None:
    task = task_of(plan_of(log), CleanerConfig(io_max_bytes_per_second=1024.0), now_ms=NOW_MS)
    command = [sys.executable, "-c", PARENT, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True) as broker:
        assert broker.stdin is not None
        broker.stdin.write(task.to_json())
        broker.stdin.close()
        (child,) = wait_for(lambda: children_of(broker.pid))

        broker.kill()

    wait_for(lambda: not is_running(child))


MEASURED = """
import resource, sys
from ottla.runtime.cleaning_process import CleaningProcess
from ottla.storage.compaction_task import Task
done = CleaningProcess(sys.argv[1]).compact(Task.from_json(sys.stdin.read()))
print(done.keys, done.map_is_full, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
"""


def test_its_memory_is_bounded_by_the_setting_however_many_keys_there_are(tmp_path: Path) -> None:
    disk = OsDisk(str(tmp_path))
    config = LogConfig(cleanup_policy=COMPACTED)
    log = Log.open(disk, DIRECTORY, PARTITION, TOPIC_ID, config, clean=True, now_ms=NOW_MS)
    for first in range(0, 200_000, 2_000):
        append(log, keyed(*((b"key-%012d" % number, b"v") for number in range(first, first + 2_000))))
    log.roll(NOW_MS)

    def measured(map_bytes: int) -> tuple[int, bool, int]:
        task = task_of(plan_of(log), CleanerConfig(dedupe_buffer_bytes=map_bytes), now_ms=NOW_MS)
        command = [sys.executable, "-c", MEASURED, str(tmp_path)]
        said = subprocess.run(command, input=task.to_json(), capture_output=True, text=True, check=True).stdout.split()
        return int(said[0]), said[1] == "True", int(said[2])

    few_keys, is_full, few_bytes = measured(2 << 20)
    all_keys, _, all_bytes = measured(64 << 20)
    disk.close()

    assert is_full
    assert few_keys < 10_000 < all_keys == 200_000
    assert all_bytes - few_bytes < 62 << 20
    assert few_bytes < all_bytes - (10 << 20)  # so that the setting is what makes the difference


def children_of(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def is_cleaner(pid: int, root: Path) -> bool:
    """Of that directory: other tests leave other children."""
    with suppress(FileNotFoundError):
        return str(root) in Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    return False


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_for(condition: Callable[[], T]) -> T:
    deadline = time.monotonic() + 30
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return found


def test_the_pace_is_kept() -> None:
    checks: list[None] = []
    pace = Pace(1_000_000, lambda: checks.append(None))
    began = time.monotonic()

    for _ in range(4):
        pace(25_000)

    assert time.monotonic() - began >= 0.1
    assert len(checks) == 4
