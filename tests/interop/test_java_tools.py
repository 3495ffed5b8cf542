"""The Java client and Kafka's own command-line tools against a running node (`make interop`)."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from bench import apache_kafka
from tests.interop.confluent import fill, new_consumer, new_producer, read, send
from tests.interop.conftest import MakeTopic
from tests.interop.kafka_tools import MAIN_CLASSES, run, run_unchecked
from tests.interop.waiting import eventually

pytestmark = pytest.mark.interop


def _describe_topics(bootstrap: str, topic: str) -> str:
    return run("kafka-topics", "--bootstrap-server", bootstrap, "--describe", "--topic", topic)


def test_kafka_topics_makes_lists_describes_grows_and_deletes(bootstrap: str, unique: str) -> None:
    def topics(*arguments: str) -> str:
        return run("kafka-topics", "--bootstrap-server", bootstrap, *arguments)

    topics("--create", "--topic", unique, "--partitions", "3", "--config", "retention.ms=4711")
    assert unique in topics("--list").splitlines()
    described = _describe_topics(bootstrap, unique)
    assert "PartitionCount: 3" in described
    assert "ReplicationFactor: 1" in described
    assert "retention.ms=4711" in described
    topics("--alter", "--topic", unique, "--partitions", "5")
    assert "PartitionCount: 5" in _describe_topics(bootstrap, unique)
    topics("--delete", "--topic", unique)
    eventually(lambda: unique not in topics("--list").splitlines())


def test_kafka_topics_tells_why_a_topic_can_not_be_made(bootstrap: str, topic: str) -> None:
    done = run_unchecked("kafka-topics", "--bootstrap-server", bootstrap, "--create", "--topic", topic)

    assert done.returncode == 1
    assert "already exists" in done.stdout + done.stderr


def test_kafka_leader_election_finds_every_leader_in_its_place(bootstrap: str, topic: str) -> None:
    election = ("kafka-leader-election", "--bootstrap-server", bootstrap, "--election-type")
    told = run(*election, "preferred", "--topic", topic, "--partition", "0")
    assert f"Valid replica already elected for partitions {topic}-0" in told
    unknown = run_unchecked(*election, "unclean", "--topic", "nothing", "--partition", "0")
    assert "nothing-0" in unknown.stdout + unknown.stderr
    assert unknown.returncode == 1


def test_kafka_features_shows_levels_and_is_told_what_can_not_be(bootstrap: str) -> None:
    server = ("kafka-features", "--bootstrap-server", bootstrap)
    assert re.search(r"eligible.leader.replicas.version.*FinalizedVersionLevel: 1", run(*server, "describe"))
    refused = run_unchecked(*server, "downgrade", "--feature", "eligible.leader.replicas.version=0")
    assert "Could not downgrade eligible.leader.replicas.version to 0" in refused.stdout


def test_kafka_cluster_can_not_unregister_who_is_not_registered(bootstrap: str) -> None:
    refused = run_unchecked("kafka-cluster", "unregister", "--bootstrap-server", bootstrap, "--id", "77")
    assert "BrokerIdNotRegisteredException" in refused.stdout + refused.stderr


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_lines_go_from_the_console_producer_to_the_console_consumer(
    bootstrap: str, topic: str, compression: str
) -> None:
    lines = "".join(f"h:{number}\tkey{number}\tvalue {number}\n" for number in range(200))
    properties = ("--reader-property", "parse.key=true", "--reader-property", "parse.headers=true")
    server = ("--bootstrap-server", bootstrap, "--topic", topic)
    run("kafka-console-producer", *server, *properties, "--compression-codec", compression, stdin=lines)

    shown = ("print.key=true", "print.headers=true", "print.offset=true", "print.timestamp=true")
    formatter = [part for name in shown for part in ("--formatter-property", name)]
    printed = run("kafka-console-consumer", *server, "--from-beginning", "--max-messages", "200", *formatter)

    rows = [line.split("\t") for line in printed.splitlines()]
    assert [row[0].startswith("CreateTime:") for row in rows] == [True] * 200
    assert [row[1:] for row in rows] == [
        [f"Offset:{number}", f"h:{number}", f"key{number}", f"value {number}"] for number in range(200)
    ]


def test_console_consumers_share_a_group_and_its_offsets(bootstrap: str, topic: str, unique: str) -> None:
    fill(bootstrap, topic, 30)
    arguments = ("--bootstrap-server", bootstrap, "--topic", topic, "--group", unique, "--from-beginning")

    first = run("kafka-console-consumer", *arguments, "--max-messages", "10").split()
    second = run("kafka-console-consumer", *arguments, "--max-messages", "20").split()

    assert first + second == [str(number) for number in range(30)]


def _groups(bootstrap: str, *arguments: str) -> str:
    return run("kafka-consumer-groups", "--bootstrap-server", bootstrap, *arguments)


def test_kafka_consumer_groups_describes_a_group_with_members(bootstrap: str, topic: str, unique: str) -> None:
    fill(bootstrap, topic, 10)
    consumer = new_consumer(bootstrap, unique, client_id="the-client")
    consumer.subscribe([topic])
    read(consumer, 10)
    consumer.commit(asynchronous=False)
    fill(bootstrap, topic, 5)

    assert unique in _groups(bootstrap, "--list").split()
    offsets = next(
        row.split() for row in _groups(bootstrap, "--describe", "--group", unique).splitlines() if topic in row
    )
    assert offsets[2:6] == ["0", "10", "15", "5"]  # partition, committed, end, lag
    assert "the-client" in _groups(bootstrap, "--describe", "--group", unique, "--members", "--verbose")
    state = _groups(bootstrap, "--describe", "--group", unique, "--state")
    assert "Stable" in state
    assert "range" in state
    consumer.close()


@pytest.mark.parametrize(
    ("reset", "expected"),
    [
        (("--to-earliest",), 0),
        (("--to-latest",), 20),
        (("--to-offset", "7"), 7),
        (("--shift-by", "-4"), 6),
        (("--to-datetime", "2000-01-01T00:00:00.000"), 0),
        (("--by-duration", "PT1H"), 0),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_kafka_consumer_groups_resets_offsets(
    bootstrap: str, topic: str, unique: str, reset: tuple[str, ...], expected: int
) -> None:
    fill(bootstrap, topic, 20)
    consumer = new_consumer(bootstrap, unique)
    consumer.subscribe([topic])
    consumer.commit(message=read(consumer, 10)[-1], asynchronous=False)
    consumer.close()

    printed = _groups(bootstrap, "--reset-offsets", "--group", unique, "--topic", topic, *reset, "--execute")

    assert re.search(rf"{topic}\s+0\s+{expected}\b", printed), printed


def test_kafka_consumer_groups_deletes_offsets_and_groups(bootstrap: str, topic: str, unique: str) -> None:
    fill(bootstrap, topic, 5)
    consumer = new_consumer(bootstrap, unique)
    consumer.subscribe([topic])
    read(consumer, 5)
    consumer.commit(asynchronous=False)
    consumer.close()

    assert "Successful" in _groups(bootstrap, "--delete-offsets", "--group", unique, "--topic", topic)
    assert "was successful" in _groups(bootstrap, "--delete", "--group", unique)
    assert unique not in _groups(bootstrap, "--list").split()


def test_kafka_configs_changes_topics_brokers_and_quotas(bootstrap: str, topic: str, unique: str) -> None:
    def configs(*arguments: str) -> str:
        return run("kafka-configs", "--bootstrap-server", bootstrap, *arguments)

    of_topic = ("--entity-type", "topics", "--entity-name", topic)
    configs("--alter", *of_topic, "--add-config", "retention.ms=4711,cleanup.policy=[compact,delete]")
    assert "retention.ms=4711" in configs("--describe", *of_topic)
    assert "cleanup.policy=compact,delete" in configs("--describe", *of_topic)
    configs("--alter", *of_topic, "--delete-config", "retention.ms")
    assert "retention.ms=4711" not in configs("--describe", *of_topic)
    assert "segment.bytes=1073741824" in configs("--describe", *of_topic, "--all")

    of_client = ("--entity-type", "clients", "--entity-name", unique)
    configs("--alter", *of_client, "--add-config", "producer_byte_rate=123456")
    assert "producer_byte_rate=123456" in configs("--describe", *of_client)
    configs("--alter", *of_client, "--delete-config", "producer_byte_rate")

    of_brokers = ("--entity-type", "brokers", "--entity-default")
    configs("--alter", *of_brokers, "--add-config", "message.max.bytes=1048600")
    assert "message.max.bytes=1048600" in configs("--describe", *of_brokers)
    configs("--alter", *of_brokers, "--delete-config", "message.max.bytes")
    assert "log.segment.bytes=1073741824" in configs(
        "--describe", "--entity-type", "brokers", "--entity-name", "1", "--all"
    )


@pytest.mark.parametrize(("time", "offset"), [("-1", 25), ("-2", 0), ("-3", 24), ("0", 0)])
def test_kafka_get_offsets_finds_offsets_by_time(bootstrap: str, topic: str, time: str, offset: int) -> None:
    for _ in range(25):
        fill(bootstrap, topic, 1)

    printed = run("kafka-get-offsets", "--bootstrap-server", bootstrap, "--topic", topic, "--time", time)

    assert printed.strip() == f"{topic}:0:{offset}"


def test_kafka_delete_records_moves_the_start_of_a_log(bootstrap: str, topic: str, tmp_path: Path) -> None:
    fill(bootstrap, topic, 25)
    wanted = tmp_path / "offsets.json"
    wanted.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 20}]}))

    printed = run("kafka-delete-records", "--bootstrap-server", bootstrap, "--offset-json-file", str(wanted))

    assert "low_watermark: 20" in printed
    start = run("kafka-get-offsets", "--bootstrap-server", bootstrap, "--topic", topic, "--time", "-2")
    assert start.strip() == f"{topic}:0:20"


def test_kafka_log_dirs_tells_the_size_of_partitions(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, 1000)

    printed = run("kafka-log-dirs", "--bootstrap-server", bootstrap, "--describe", "--topic-list", topic)

    described = json.loads(printed.splitlines()[-1])
    (partition,) = described["brokers"][0]["logDirs"][0]["partitions"]
    assert partition["partition"] == f"{topic}-0"
    assert partition["size"] > 5000
    assert partition["offsetLag"] == 0


@pytest.mark.parametrize("acks", ["-1", "0", "1"])
def test_the_verifiable_producer_and_consumer_agree(
    bootstrap: str, make_topic: MakeTopic, unique: str, acks: str
) -> None:
    topic = make_topic(partitions=3)
    server = ("--bootstrap-server", bootstrap, "--topic", topic)

    produced = run("kafka-verifiable-producer", *server, "--max-messages", "2000", "--acks", acks)
    sent = [json.loads(line) for line in produced.splitlines() if line.startswith("{")]
    assert sum(event["name"] == "producer_send_success" for event in sent) == 2000

    if acks != "0":
        limits = ("--max-messages", "2000", "--reset-policy", "earliest", "--group-id", unique)
        consumed = run("kafka-verifiable-consumer", *server, *limits)
        events = [json.loads(line) for line in consumed.splitlines() if line.startswith("{")]
        assert sum(event["count"] for event in events if event["name"] == "records_consumed") == 2000
        assert all(event["success"] for event in events if event["name"] == "offsets_committed")


def test_a_group_of_java_and_librdkafka_consumers_shares_its_partitions(
    bootstrap: str, make_topic: MakeTopic, unique: str
) -> None:
    topic = make_topic(partitions=4)
    arguments = ["--bootstrap-server", bootstrap, "--topic", topic, "--group-id", unique]
    command = apache_kafka.tool_command(MAIN_CLASSES["kafka-verifiable-consumer"], arguments)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as java:
        consumer = new_consumer(bootstrap, unique, heartbeat_interval_ms=200, partition_assignment_strategy="range")
        consumer.subscribe([topic])

        eventually(lambda: consumer.poll(0.05) or len(consumer.assignment()) == 2, within_s=30)
        java.terminate()
        eventually(lambda: consumer.poll(0.05) or len(consumer.assignment()) == 4, within_s=30)
        consumer.close()


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_the_performance_tools_run(bootstrap: str, make_topic: MakeTopic, compression: str) -> None:
    topic = make_topic(partitions=6)
    properties = (f"bootstrap.servers={bootstrap}", "acks=all", f"compression.type={compression}")
    size = ("--num-records", "50000", "--record-size", "200", "--throughput", "-1")

    printed = run("kafka-producer-perf-test", "--topic", topic, *size, "--command-property", *properties)
    assert "50000 records sent" in printed

    consumed = run(
        "kafka-consumer-perf-test", "--bootstrap-server", bootstrap, "--topic", topic, "--num-records", "50000"
    )
    assert int(consumed.splitlines()[-1].split(",")[4]) >= 50_000


def test_the_cluster_tells_what_it_is_and_what_it_speaks(bootstrap: str) -> None:
    assert "Cluster ID:" in run("kafka-cluster", "cluster-id", "--bootstrap-server", bootstrap)
    versions = run("kafka-broker-api-versions", "--bootstrap-server", bootstrap)
    assert "Produce(0): 0 to" in versions
    assert "UNSUPPORTED" not in versions.partition("Fetch(1)")[0]
    assert "metadata.version" in run("kafka-features", "--bootstrap-server", bootstrap, "describe")


def test_kafka_transactions_shows_the_producers_of_a_partition(bootstrap: str, topic: str) -> None:
    send(new_producer(bootstrap, enable_idempotence=True), topic, [b"a", b"b", b"c"])

    arguments = ("--bootstrap-server", bootstrap, "describe-producers", "--topic", topic, "--partition", "0")
    _, producer = run("kafka-transactions", *arguments).splitlines()

    _, epoch, _, last_sequence, *_ = producer.split()
    assert (epoch, last_sequence) == ("0", "2")
