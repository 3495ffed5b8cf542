"""Who a directory belongs to survives restarts and crashes, and is never mistaken."""

import contextlib
import random

import pytest

from ottla.errors import ConfigError, StorageError
from ottla.membership.founding import Formed
from ottla.membership.founding_wire import Founder
from ottla.runtime.forming import identity_alone
from ottla.runtime.identity import FILE, Identity, load, new, save
from ottla.testing.disk import CrashingDisk

DICE = random.Random(5)
OTHERS = (Founder(2, bytes([2] * 16)), Founder(3, bytes([3] * 16)))


def text_of(disk: CrashingDisk) -> str:
    file = disk.open(FILE)
    return file.pread(file.size(), 0).decode()


def write(disk: CrashingDisk, text: str) -> None:
    file = disk.open(FILE, create=True)
    file.truncate(0)
    file.pwritev([text.encode()], 0)


def founded(node_id: int = 1) -> Identity:
    identity = new(node_id, DICE)
    voters = tuple(sorted((identity.founder, *OTHERS)))
    return identity.of(Formed(cluster_id="the-cluster", voters=voters, is_founder=True))


def test_a_directory_that_nobody_used_belongs_to_nobody() -> None:
    assert load(CrashingDisk(), 1) is None


def test_before_there_is_a_cluster_only_the_node_is_known() -> None:
    disk, identity = CrashingDisk(), new(1, DICE)

    save(disk, identity)

    assert load(disk.crash(), 1) == identity
    assert identity.formed is None
    assert "cluster.id" not in text_of(disk)


def test_the_cluster_and_its_founders_survive() -> None:
    disk, identity = CrashingDisk(), founded()

    save(disk, identity)

    found = load(disk.crash(), 1)
    assert found == identity
    assert found is not None
    assert found.is_founder
    assert found.formed == Formed(cluster_id="the-cluster", voters=identity.voters, is_founder=True)


def test_a_node_that_joined_is_no_founder() -> None:
    disk = CrashingDisk()
    identity = new(4, DICE).of(Formed(cluster_id="the-cluster", voters=OTHERS, is_founder=False))

    save(disk, identity)

    found = load(disk, 4)
    assert found is not None
    assert not found.is_founder
    assert found.voters == OTHERS


def test_a_crash_while_it_is_written_leaves_the_old_or_the_new() -> None:
    before, after = new(1, DICE), founded()
    for operation in range(1, 12):
        disk = CrashingDisk()
        save(disk, before)
        countdown = [operation]

        def die(_operation: object, _path: str, left: list[int] = countdown) -> None:
            left[0] -= 1
            if left[0] == 0:
                raise InterruptedError

        disk.before_operation = die
        with contextlib.suppress(InterruptedError):
            save(disk, after)
        disk.before_operation = None

        assert load(disk.crash(), 1) in (before, after)


def test_another_nodes_directory_is_refused() -> None:
    disk = CrashingDisk()
    save(disk, new(1, DICE))

    with pytest.raises(ConfigError, match="belongs to node 1"):
        load(disk, 2)


def test_a_file_of_a_node_that_knew_no_others_is_that_of_a_cluster_of_one() -> None:
    disk = CrashingDisk()
    write(disk, "version=1\ncluster.id=abc\nnode.id=7\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAA\n")

    found = load(disk, 7)

    assert found is not None
    assert (found.cluster_id, found.voters) == ("abc", (Founder(7, bytes(16)),))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "node.id=1\n",
        "node.id=one\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAA\n",
        "node.id=1\ndirectory.id=short\n",
        "node.id=1\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAA\ncluster.id=a\nfounding.voters=1\n",
    ],
)
def test_a_file_that_is_none_is_told(text: str) -> None:
    disk = CrashingDisk()
    write(disk, text)

    with pytest.raises(StorageError, match=r"meta\.properties"):
        load(disk, 1)


def test_a_node_alone_is_its_own_cluster_for_ever() -> None:
    disk = CrashingDisk()

    identity = identity_alone(disk, 1, DICE)

    assert identity.cluster_id
    assert identity.voters == (identity.founder,)
    assert identity_alone(disk.crash(), 1, DICE) == identity


def test_a_node_of_a_larger_cluster_does_not_start_alone() -> None:
    disk = CrashingDisk()
    save(disk, founded())

    with pytest.raises(ConfigError, match="cluster_port"):
        identity_alone(disk, 1, DICE)
