"""Who serves a directory, and where."""

import socket
import threading
from pathlib import Path

import pytest

import ottla
from ottla.client.errors import QueueUnavailableError
from ottla.client.queue_directory import (
    ADDRESS_FILE,
    DirectoryPlace,
    directory_address,
    draw_address,
    is_free,
)
from ottla.embedded import EmbeddedNode
from ottla.runtime.directory_lock import DirectoryLock
from tests.client.waiting import eventually


def place(directory: Path, patience_s: float = 10) -> DirectoryPlace:
    return DirectoryPlace(directory, partitions=2, patience_s=patience_s)


def test_an_address_belongs_to_its_directory(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()

    first = directory_address(tmp_path / "a")

    assert directory_address(tmp_path / "a") == first
    assert directory_address(tmp_path / "b") != first


def test_many_threads_that_ask_first_agree(tmp_path: Path) -> None:
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(directory_address(tmp_path))) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(found) == 16
    assert len(set(found)) == 1
    assert [path.name for path in tmp_path.iterdir()] == [ADDRESS_FILE]


def test_an_address_is_on_this_machine_and_out_of_the_way() -> None:
    host, port = draw_address().split(":")

    assert host.startswith("127.")
    assert 20_000 <= int(port) <= 32_000


def test_a_directory_is_free_until_it_is_locked(tmp_path: Path) -> None:
    assert is_free(tmp_path)
    with DirectoryLock(str(tmp_path)):
        assert not is_free(tmp_path)
    assert is_free(tmp_path)


def test_the_first_hosts_and_the_second_joins(tmp_path: Path) -> None:
    first, second = place(tmp_path), place(tmp_path)

    assert (first.hosting, second.hosting) == (True, False)
    assert first.bootstrap_servers == second.bootstrap_servers

    second.close()
    first.close()
    assert is_free(tmp_path)


def test_when_the_host_leaves_the_other_takes_over_at_the_same_address(tmp_path: Path) -> None:
    first, second = place(tmp_path), place(tmp_path)
    address = first.bootstrap_servers

    first.close()
    eventually(lambda: second.hosting)

    host, port = address.split(":")
    socket.create_connection((host, int(port)), timeout=5).close()
    assert second.bootstrap_servers == address
    second.close()


def test_a_node_that_somebody_else_started_is_joined(tmp_path: Path) -> None:
    with EmbeddedNode(tmp_path) as node:
        joined = place(tmp_path)

        assert not joined.hosting
        assert joined.bootstrap_servers == node.bootstrap
        joined.close()


def test_an_address_that_some_program_has_taken_is_given_up(tmp_path: Path) -> None:
    taken = directory_address(tmp_path)
    host, port = taken.split(":")
    with socket.create_server((host, int(port))):
        hosted = place(tmp_path)

    assert hosted.hosting
    assert hosted.bootstrap_servers != taken
    assert directory_address(tmp_path) == hosted.bootstrap_servers
    hosted.close()


def test_a_directory_that_is_locked_and_not_served_is_told_in_time(tmp_path: Path) -> None:
    with DirectoryLock(str(tmp_path)), pytest.raises(QueueUnavailableError, match="locked"):
        place(tmp_path, patience_s=0.1)


def test_enqueueing_goes_on_while_the_host_changes(tmp_path: Path) -> None:
    first, second = ottla.open(tmp_path), ottla.open(tmp_path)
    before = second.enqueue("a", "before")

    first.close()
    after = second.enqueue("a", "after")

    assert after.offset == before.offset + 1
    assert second.hosting
    second.close()
