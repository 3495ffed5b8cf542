"""A full disk: writes are refused with an error that clients know, reads go on, and freed space is used again.

The disk is a small tmpfs in a mount namespace of the node's own, which any user may have where the system allows it.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.errors import ErrorCode
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from ottla.protocol.record import Record
from ottla.protocol.records import build_batch
from tests.interop.confluent import read_all
from tests.interop.node_process import NodeProcess
from tests.interop.waiting import eventually
from tests.programs import require
from tests.robustness.raw_client import RawClient, create_topic, is_served, produce

DISK_MB = 400
BATCH = build_batch([Record(value=b"x" * 1000, timestamp_ms=1_600_000_000_000) for _ in range(900)])
SMALL_BATCH = build_batch([Record(value=b"y" * 10_000, timestamp_ms=1_600_000_000_000)])


class SmallDiskNode(NodeProcess):
    """A node whose directory is on a disk of its own, that is gone when the node ends."""

    def launch(self) -> subprocess.Popen[bytes]:
        self.data_dir.mkdir(parents=True, exist_ok=True)
        ottla = Path(sys.executable).with_name("ottla")
        mount = f"mount -t tmpfs -o size={DISK_MB}m tmpfs {self.data_dir}"
        settings = "--set log.segment.delete.delay.ms=100 --set log.flush.offset.checkpoint.interval.ms=500"
        start = f"exec {ottla} start --port {self.port} --data-dir {self.data_dir}/node {settings}"
        with open(self.log_file, "ab") as log:
            command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", f"{mount} && {start}"]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        return self._process


def _can_mount() -> bool:
    command = ["unshare", "--user", "--map-root-user", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.fixture
def small_disk_node(tmp_path: Path) -> Iterator[NodeProcess]:
    require("unshare")
    if not _can_mount():
        pytest.skip("needs unprivileged mount namespaces")
    node = SmallDiskNode(tmp_path / "node")
    with node:
        yield node


def _fill_disk(client: RawClient, topic: str) -> tuple[int, int]:
    """Produce until it is refused: the number of batches that were acknowledged, and the error."""
    for number in range(2 * DISK_MB):
        answer = produce(client, topic, BATCH)
        if answer.error_code:
            return number, answer.error_code
    raise AssertionError("the disk never filled up")


def _fill_the_rest(client: RawClient, topic: str) -> None:
    """Produce small batches until none is taken, whatever is freed meanwhile in the background."""
    refused = 0
    while refused < 100:
        refused = refused + 1 if produce(client, topic, SMALL_BATCH).error_code else 0


def test_a_full_disk_refuses_writes_serves_reads_and_recovers(small_disk_node: NodeProcess) -> None:
    bootstrap = small_disk_node.bootstrap
    create_topic(bootstrap, "first")
    create_topic(bootstrap, "second")
    with RawClient(bootstrap) as client:
        assert produce(client, "second", BATCH).error_code == 0
        acknowledged, error = _fill_disk(client, "first")

        assert error == ErrorCode.KAFKA_STORAGE_ERROR
        assert small_disk_node.alive()
        assert is_served(bootstrap)
        stored = read_all(bootstrap, "first", acknowledged * 900)
        assert [message.offset() for message in stored] == list(range(acknowledged * 900))

        _fill_the_rest(client, "second")
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name="first")], timeout_ms=10_000)
        answer = client.call(request, 6, DeleteTopicsResponse)
        assert answer.responses[0].error_code == 0
        eventually(lambda: produce(client, "second", BATCH).error_code == 0, within_s=90)
