import multiprocessing
import os
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from ottla.errors import DirectoryLockedError
from ottla.runtime.directory_lock import DirectoryLock, LockOwner, lock_owner


def test_a_second_lock_is_refused_with_a_sentence_that_names_the_first(tmp_path: Path) -> None:
    with DirectoryLock(str(tmp_path)) as lock:
        lock.publish("127.0.0.1:9092")

        with pytest.raises(DirectoryLockedError) as refusal:
            DirectoryLock(str(tmp_path))

    assert f"process {os.getpid()}" in str(refusal.value)
    assert "127.0.0.1:9092" in str(refusal.value)


def test_others_learn_the_address_while_it_is_held(tmp_path: Path) -> None:
    assert lock_owner(str(tmp_path)) is None
    with DirectoryLock(str(tmp_path)) as lock:
        assert lock_owner(str(tmp_path)) == LockOwner(pid=os.getpid(), address="")
        lock.publish("localhost:1")
        assert lock_owner(str(tmp_path)) == LockOwner(pid=os.getpid(), address="localhost:1")

    assert lock_owner(str(tmp_path)) is None


def test_it_can_be_taken_again_after_release(tmp_path: Path) -> None:
    DirectoryLock(str(tmp_path)).release()

    DirectoryLock(str(tmp_path)).release()


def _say_and_wait(ready: Event, stop: Event) -> None:
    ready.set()
    stop.wait(30)


def test_a_forked_child_does_not_keep_the_lock_of_a_parent_that_is_gone(tmp_path: Path) -> None:
    lock = DirectoryLock(str(tmp_path))
    fork = multiprocessing.get_context("fork")
    ready, stop = fork.Event(), fork.Event()
    child = fork.Process(target=_say_and_wait, args=(ready, stop))
    child.start()
    assert ready.wait(30)
    lock.drop()  # what the kernel does when the parent is killed

    DirectoryLock(str(tmp_path)).release()

    assert child.is_alive()
    stop.set()
    child.join()
