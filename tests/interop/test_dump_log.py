"""Kafka's kafka-dump-log reads what a node left on disk: a check of the formats by a program that nobody here wrote."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from tests.interop.confluent import new_consumer, new_producer, read, send
from tests.interop.kafka_tools import run
from tests.interop.node_process import NodeProcess

pytestmark = pytest.mark.interop
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
RECORDS_PER_COMPRESSION = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """A node that has been used and stopped."""

    data_dir: Path

    def files(self, topic_partition: str, suffix: str) -> list[Path]:
        found = sorted(self.data_dir.rglob(f"{topic_partition}/*{suffix}"))
        assert found, f"no {suffix} of {topic_partition} in {sorted(self.data_dir.rglob('*'))[:50]}"
        return found


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Stopped:
    with NodeProcess(tmp_path_factory.mktemp("dumped")) as node:
        _use(node.bootstrap)
        assert node.stop() == 0
    return Stopped(data_dir=node.data_dir)


def _use(bootstrap: str) -> None:
    """Records of all kinds in several segments, a group, a changed config and a deleted topic."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    settings = {"segment.bytes": "1048576", "index.interval.bytes": "4096"}
    for future in admin.create_topics([NewTopic("kept", 2, 1, config=settings), NewTopic("gone", 1, 1)]).values():
        future.result(10)
    for compression in COMPRESSIONS:
        producer = new_producer(bootstrap, compression_type=compression, enable_idempotence=True, batch_size=8192)
        values = [os.urandom(700) + bytes(500) for _ in range(RECORDS_PER_COMPRESSION)]
        send(producer, "kept", values, partition=0, key=b"key", headers=[("h", b"1")])
    consumer = new_consumer(bootstrap, "the-group")
    consumer.subscribe(["kept"])
    read(consumer, 100)
    consumer.commit(offsets=[TopicPartition("kept", 0, 42, metadata="note")], asynchronous=False)
    consumer.close()
    change = ConfigEntry("retention.ms", "4711000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, "kept", incremental_configs=[change])
    admin.incremental_alter_configs([resource])[resource].result(10)
    admin.delete_topics(["gone"])["gone"].result(10)
    partition = TopicPartition("kept", 0, 10)
    admin.delete_records([partition])[partition].result(10)


def _dump(path: Path, *options: str) -> str:
    printed = run("kafka-dump-log", "--files", str(path), *options)
    assert "isvalid: false" not in printed
    assert "Mismatches" not in printed
    return printed


def test_every_batch_of_every_segment_is_valid(stopped: Stopped) -> None:
    segments = stopped.files("kept-0", ".log")
    assert len(segments) >= 3
    offsets: list[int] = []
    codecs: set[str] = set()
    for segment in segments:
        printed = _dump(segment, "--deep-iteration", "--print-data-log")
        offsets += [int(offset) for offset in re.findall(r"^\| offset: (\d+)", printed, re.MULTILINE)]
        codecs |= set(re.findall(r"compresscodec: (\w+)", printed))
        assert int(segment.stem) == int(re.findall(r"baseOffset: (\d+)", printed)[0])

    assert offsets == list(range(offsets[0], len(COMPRESSIONS) * RECORDS_PER_COMPRESSION))
    assert codecs == set(COMPRESSIONS)


def test_offset_indexes_pass_the_sanity_check(stopped: Stopped) -> None:
    indexes = stopped.files("kept-0", ".index")
    for index in indexes:
        assert "passed sanity check" in _dump(index, "--index-sanity-check")
    entries = [re.findall(r"offset: (\d+) position: (\d+)", _dump(index)) for index in indexes]
    assert len(entries[0]) > 10


def test_indexes_agree_with_the_log_that_they_index(stopped: Stopped) -> None:
    for index in stopped.files("kept-0", ".index") + stopped.files("kept-0", ".timeindex"):
        printed = _dump(index, "--verify-index-only")
        assert "Found timestamp mismatch" not in printed
        assert "Found out of order timestamp" not in printed


def test_producer_snapshots_are_read(stopped: Stopped) -> None:
    printed = _dump(stopped.files("kept-0", ".snapshot")[-1])

    # A producer has a row for each of its last batches. Kafka's reader keeps the last row, so that must be the newest.
    rows = re.findall(r"producerId: (\d+) producerEpoch: 0 .*?lastSequence: (\d+)", printed)
    last = {int(producer): int(sequence) for producer, sequence in rows}
    assert list(last.values()) == [RECORDS_PER_COMPRESSION - 1] * len(COMPRESSIONS)


def test_committed_offsets_and_group_metadata_are_read(stopped: Stopped) -> None:
    logs = [path for path in stopped.files("__consumer_offsets-*", ".log") if path.stat().st_size]
    printed = "".join(_dump(path, "--offsets-decoder") for path in logs)

    assert '"group":"the-group","topic":"kept","partition":0' in printed
    assert '"offset":42' in printed
    assert '"metadata":"note' in printed  # confluent-kafka sends its terminating zero along
    assert '"protocolType":"consumer"' in printed


def test_the_metadata_log_is_read(stopped: Stopped) -> None:
    printed = _dump(stopped.files("__cluster_metadata-0", ".log")[0], "--cluster-metadata-decoder")

    assert '"type":"TOPIC_RECORD","version":0,"data":{"name":"kept"' in printed
    assert '"type":"PARTITION_RECORD"' in printed
    assert '"type":"CONFIG_RECORD"' in printed
    assert '"type":"REMOVE_TOPIC_RECORD"' in printed
