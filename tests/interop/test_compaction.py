"""A topic that stock clients write is compacted by a node as users run it; Kafka's own tool reads what is left."""

import os
import re
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.confluent import new_consumer
from tests.interop.kafka_tools import run
from tests.interop.node_process import NodeProcess

pytestmark = pytest.mark.interop
KEYS = 50
ROUNDS = 40
SETTINGS = {"OTTLA_CLEANER_BACKOFF_MS": "50", "OTTLA_STORAGE_RECOVERY_CHECKPOINT_INTERVAL_MS": "50"}
CONFIG = {
    "cleanup.policy": "compact",
    "segment.bytes": "30000",
    "min.cleanable.dirty.ratio": "0.1",
    "file.delete.delay.ms": "0",
}


def _write(bootstrap: str) -> None:
    """Each key many times in transactions of which every third is aborted, in all compressions; key 7 is deleted."""
    compressions = ("none", "gzip", "snappy", "lz4", "zstd")
    for number, compression in enumerate(compressions):
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "compression.type": compression,
                "transactional.id": f"writer-{number}",
                "linger.ms": 5,
            }
        )
        producer.init_transactions(30)
        for turn in range(ROUNDS // len(compressions)):
            producer.begin_transaction()
            is_void = turn % 3 == 1
            for key in range(KEYS):
                value = None if key == 7 else f"{'void' if is_void else number}-{turn}".encode() + os.urandom(200)
                producer.produce("t", key=str(key), value=value)
            if is_void:
                producer.abort_transaction(30)
            else:
                producer.commit_transaction(30)


def _read(bootstrap: str) -> dict[str, bytes | None]:
    consumer = new_consumer(bootstrap, "reader", **{"isolation.level": "read_committed", "enable.partition.eof": True})
    consumer.subscribe(["t"])
    found: dict[str, bytes | None] = {}
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error():
            break
        found[message.key().decode()] = message.value()
    consumer.close()
    return found


def _compacted(data_dir: Path) -> bool:
    checkpoint = data_dir / "cleaner-offset-checkpoint"
    return checkpoint.exists() and re.search(r"^t 0 [1-9]\d{3}", checkpoint.read_text(), re.MULTILINE) is not None


def test_compacted_segments_are_read_by_clients_and_by_kafka_dump_log(tmp_path: Path) -> None:
    node = NodeProcess(tmp_path)
    node.environment |= SETTINGS
    with node:
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        admin.create_topics([NewTopic("t", 1, 1, config=CONFIG)])["t"].result(10)
        _write(node.bootstrap)
        deadline = time.monotonic() + 30
        while not _compacted(node.data_dir):
            assert time.monotonic() < deadline, node.log()
            time.sleep(0.1)
        found = _read(node.bootstrap)
        assert node.stop() == 0

    assert len(found) == KEYS
    assert found["7"] is None
    assert all(value.startswith(b"4-") for key, value in found.items() if value is not None and key != "7")
    directory = node.data_dir / "t-0"
    records = 0
    for segment in sorted(directory.glob("*.log")):
        printed = run("kafka-dump-log", "--files", str(segment), "--deep-iteration", "--print-data-log")
        assert "isvalid: false" not in printed
        records += len(re.findall(r"^\| offset: \d+ .*keySize", printed, re.MULTILINE))
    assert records < KEYS * ROUNDS / 2
    printed = "".join(run("kafka-dump-log", "--files", str(segment)) for segment in sorted(directory.glob("*.log")))
    assert re.search(r"deleteHorizonMs: OptionalLong\[\d{13}\]", printed)
    for suffix in ("index", "timeindex", "txnindex"):
        for index in sorted(directory.glob(f"*.{suffix}")):
            assert "Mismatches" not in run("kafka-dump-log", "--files", str(index))
