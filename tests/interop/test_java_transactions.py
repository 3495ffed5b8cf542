"""Kafka's own transactional client and tools against a running node (`make interop`).

The Java client speaks version 2 of transactions where the node says so, which librdkafka does not yet.
"""

import re
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.confluent import new_producer, send
from tests.interop.conftest import MakeTopic
from tests.interop.kafka_tools import run
from tests.interop.node_process import NodeProcess
from tests.interop.test_confluent_transactions import read_all, transactional
from tests.interop.waiting import eventually

pytestmark = pytest.mark.interop


def copy(bootstrap: str, source: str, target: str, *more: str) -> str:
    return run(
        "kafka-transactional-message-copier",
        *("--broker-list", bootstrap, "--transactional-id", f"copy-{source}", "--consumer-group", f"g-{source}"),
        *("--input-topic", source, "--input-partition", "0", "--output-topic", target),
        *("--transaction-size", "20", "--enable-random-aborts", "--use-group-metadata", *more),
        timeout_s=120,
    )


@pytest.mark.parametrize("level", [2, 1])
def test_the_transactional_copier_copies_exactly_once(tmp_path: Path, level: int) -> None:
    with NodeProcess(tmp_path) as node:
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        for future in admin.create_topics([NewTopic("in", 1, 1), NewTopic("out", 3, 1)]).values():
            future.result(10)
        features = ("kafka-features", "--bootstrap-server", node.bootstrap)
        assert re.search(r"transaction\.version.*FinalizedVersionLevel: 2", run(*features, "describe"))
        if level != 2:
            run(*features, "downgrade", "--feature", f"transaction.version={level}")
            lowered = rf"transaction\.version.*FinalizedVersionLevel: {level}"
            eventually(lambda: re.search(lowered, run(*features, "describe")) is not None)
        values = [b"%d" % number for number in range(500)]
        send(new_producer(node.bootstrap), "in", values)

        copy(node.bootstrap, "in", "out", "--max-messages", "200")
        copy(node.bootstrap, "in", "out")

        assert sorted(read_all(node.bootstrap, "out", 3)) == sorted(values)


def test_the_console_consumer_reads_what_is_committed(bootstrap: str, topic: str) -> None:
    producer = transactional(bootstrap, topic)
    for value, commits in ((b"a", True), (b"b", False), (b"c", True)):
        producer.begin_transaction()
        producer.produce(topic, value)
        assert producer.flush(30) == 0
        (producer.commit_transaction if commits else producer.abort_transaction)(30)

    read = ("--from-beginning", "--isolation-level", "read_committed", "--timeout-ms", "5000")
    printed = run("kafka-console-consumer", "--bootstrap-server", bootstrap, "--topic", topic, *read)

    assert printed.split() == ["a", "c"]


def test_kafka_transactions_finds_describes_and_ends_one(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    producer = transactional(bootstrap, topic)
    producer.begin_transaction()
    producer.produce(topic, b"hanging")
    assert producer.flush(30) == 0

    def transactions(*arguments: str) -> str:
        return run("kafka-transactions", "--bootstrap-server", bootstrap, *arguments)

    assert re.search(rf"{topic}\s+\d+\s+\d+\s+Ongoing", transactions("list"))
    assert f"{topic}-0" in transactions("describe", "--transactional-id", topic)
    assert "Ongoing" in transactions("describe", "--transactional-id", topic)
    producers = transactions("describe-producers", "--topic", topic, "--partition", "0").splitlines()
    assert producers[1].split()[-1] == "0"
    transactions("abort", "--topic", topic, "--partition", "0", "--start-offset", "0")
    plain = new_producer(bootstrap)
    send(plain, topic, [b"after"])
    assert read_all(bootstrap, topic) == [b"after"]


def test_kafka_dump_log_reads_what_transactions_leave_on_disk(tmp_path: Path) -> None:
    with NodeProcess(tmp_path) as node:
        producer = transactional(node.bootstrap, "dumped")
        for commits in (True, False):
            producer.begin_transaction()
            producer.produce("d", b"x")
            assert producer.flush(30) == 0
            (producer.commit_transaction if commits else producer.abort_transaction)(30)
        assert node.stop() == 0
        data = node.data_dir

    (segment,) = data.glob("d-0/*.log")
    dumped = run("kafka-dump-log", "--print-data-log", "--files", str(segment))
    assert re.search(r"isControl: true.*\n.*endTxnMarker: COMMIT coordinatorEpoch: \d+", dumped)
    assert "endTxnMarker: ABORT" in dumped
    (index,) = data.glob("d-0/*.txnindex")
    assert re.search(r"firstOffset: 2 lastOffset: 3 lastStableOffset: 4", run("kafka-dump-log", "--files", str(index)))
    states = [
        run("kafka-dump-log", "--transaction-log-decoder", "--files", str(path))
        for path in data.glob("__transaction_state-*/*.log")
        if path.stat().st_size
    ]
    (state,) = [state for state in states if "dumped" in state]
    assert set(re.findall(r'"transactionStatus":(\d)', state)) == set("012345")
