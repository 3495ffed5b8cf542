"""Finding the process of a local broker, and what it costs."""

import os
from pathlib import Path

from ottla.cli.bench.broker import find_broker, usage
from ottla.runtime.directory_lock import DirectoryLock


def test_the_node_of_a_data_directory_is_found_by_its_lock(tmp_path: Path) -> None:
    with DirectoryLock(str(tmp_path)) as lock:
        lock.publish("127.0.0.1:9092")

        assert find_broker("127.0.0.1:9092", str(tmp_path), None) == os.getpid()
        assert find_broker("localhost:9092", str(tmp_path), None) == os.getpid()
        assert find_broker("127.0.0.1:9093", str(tmp_path), None) is None


def test_a_directory_that_nobody_owns_has_no_broker(tmp_path: Path) -> None:
    assert find_broker("127.0.0.1:9092", str(tmp_path), None) is None
    assert find_broker("127.0.0.1:9092", str(tmp_path / "nowhere"), None) is None


def test_a_named_process_is_taken(tmp_path: Path) -> None:
    assert find_broker("127.0.0.1:9092", str(tmp_path), os.getppid()) == os.getppid()


def test_cpu_time_grows_with_work() -> None:
    before = usage(os.getpid())
    while usage(os.getpid()).cpu_us <= before.cpu_us:
        sum(range(10_000))

    assert usage(os.getpid()).rss_bytes > 1_000_000
