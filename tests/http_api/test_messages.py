"""Writing and reading over HTTP, and what Kafka clients see of it."""

import base64
import json
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from confluent_kafka import Consumer, Producer, murmur2
from confluent_kafka import TopicPartition as Place
from hypothesis import given
from hypothesis import strategies as st

from ottla.http.messages import Encoding, Message, build, read_messages
from ottla.http.partitioner import partition_of
from ottla.protocol.records import check_crc, iter_batches, read_records
from tests.http_api.rig import HttpNode, error_of


def kafka_read(node: HttpNode, topic: str, wanted: int, **settings: str) -> list[tuple[int, object, object, object]]:
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "reader", **settings})
    try:
        partitions = consumer.list_topics(topic).topics[topic].partitions
        consumer.assign([Place(topic, index, 0) for index in partitions])
        found = consumer.consume(wanted, timeout=20)
        return [(each.partition(), each.key(), each.value(), each.headers()) for each in found]
    finally:
        consumer.close()


def test_one_message_is_what_a_kafka_client_reads(node: HttpNode) -> None:
    node.create("m-one")
    written = node.client.post(
        "/topics/m-one/produce", json={"key": "k", "value": {"a": [1, "ä"]}, "headers": {"h": "1", "n": None}}
    )
    assert written.status_code == 200
    assert written.json() == {"topic": "m-one", "partition": 0, "offset": 0}
    assert kafka_read(node, "m-one", 1) == [(0, b"k", '{"a":[1,"ä"]}'.encode(), [("h", b"1"), ("n", None)])]


def test_what_a_kafka_client_writes_is_read(node: HttpNode) -> None:
    node.create("m-two")
    producer = Producer({"bootstrap.servers": node.bootstrap, "compression.type": "zstd"})
    for number in range(20):
        producer.produce("m-two", key=str(number), value=json.dumps({"n": number}), headers={"h": "x"})
    producer.flush()
    read = node.consume("m-two", limit=50, encoding="json")
    assert [record["value"] for record in read["records"]] == [{"n": number} for number in range(20)]
    assert read["records"][0]["headers"] == [["h", "x"]]
    assert (read["next_offset"], read["high_watermark"]) == (20, 20)


def test_a_list_and_ndjson_are_written_in_one_go(node: HttpNode) -> None:
    node.create("m-many")
    assert node.produce("m-many", *({"value": str(n)} for n in range(5)))["count"] == 5
    lines = "\n".join(json.dumps({"value": str(n)}) for n in range(5, 1000))
    written = node.client.post(
        "/topics/m-many/produce", content=lines, headers={"content-type": "application/x-ndjson"}
    )
    assert written.json()["partitions"] == [{"partition": 0, "offset": 5, "count": 995}]
    assert node.values("m-many") == [str(n) for n in range(1000)]


def test_a_key_goes_where_kafka_clients_put_it(node: HttpNode) -> None:
    node.create("m-keys", partitions=5)
    keys = [f"key-{number}" for number in range(40)]
    node.produce("m-keys", *({"key": key, "value": "http"} for key in keys))
    producer = Producer({"bootstrap.servers": node.bootstrap, "partitioner": "murmur2_random"})
    for key in keys:
        producer.produce("m-keys", key=key, value="kafka")
    producer.flush()
    places: dict[object, set[int]] = {}
    for partition, read_key, _, _ in kafka_read(node, "m-keys", 80):
        places.setdefault(read_key, set()).add(partition)
    assert all(len(where) == 1 for where in places.values())
    assert {next(iter(where)) for where in places.values()} == set(range(5))


@given(st.binary(max_size=50), st.integers(1, 1000))
def test_the_partitioner_is_librdkafkas(key: bytes, count: int) -> None:
    assert partition_of(key, count) == murmur2(key, count)


@given(
    st.lists(
        st.tuples(
            st.none() | st.binary(max_size=200),
            st.none() | st.text(max_size=300),
            st.lists(st.tuples(st.text(max_size=10), st.none() | st.text(max_size=10)), max_size=3),
        ),
        min_size=1,
        max_size=200,
    )
)
def test_a_batch_holds_what_was_put_into_it(
    content: list[tuple[bytes | None, str | None, list[tuple[str, str | None]]]],
) -> None:
    messages = [Message(value=value, headers=headers) for _, value, headers in content]
    [batch] = iter_batches(build(messages, [key for key, _, _ in content], Encoding.TEXT, 1_700_000_000_000))
    check_crc(batch)
    assert [
        (record.key, record.value, list(record.headers), record.timestamp_ms) for record in read_records(batch.data)
    ] == [
        (
            key,
            None if value is None else value.encode(),
            [(name, None if text is None else text.encode()) for name, text in headers],
            1_700_000_000_000,
        )
        for key, value, headers in content
    ]


def test_binary_values_go_as_base64_when_asked(node: HttpNode) -> None:
    node.create("m-binary")
    raw = bytes(range(256))
    written = node.client.post(
        "/topics/m-binary/produce?encoding=base64", json={"value": base64.b64encode(raw).decode()}
    )
    assert written.status_code == 200, written.text
    assert kafka_read(node, "m-binary", 1)[0][2] == raw
    [asked] = node.consume("m-binary", encoding="base64")["records"]
    [unasked] = node.consume("m-binary")["records"]
    assert base64.b64decode(asked["value"]) == base64.b64decode(unasked["value"]) == raw
    assert (asked["encoding"], unasked["encoding"]) == (None, "base64")
    refused = node.client.post("/topics/m-binary/produce?encoding=base64", json={"value": "not base64!"})
    assert error_of(refused)[:2] == (400, "bad_request")


def test_reading_starts_at_names_times_and_numbers(node: HttpNode) -> None:
    node.create("m-times")
    node.produce("m-times", {"value": "old"})
    time.sleep(0.02)  # records of two different milliseconds are the point here
    between = datetime.now(UTC)
    time.sleep(0.02)
    node.produce("m-times", {"value": "new"})
    assert node.values("m-times", offset="earliest") == ["old", "new"]
    assert node.values("m-times", offset="latest") == []
    assert node.values("m-times", offset="1") == ["new"]
    assert node.values("m-times", offset=between.isoformat()) == ["new"]
    assert node.values("m-times", offset=f"@{int(between.timestamp() * 1000)}") == ["new"]
    assert node.values("m-times", offset="2099-01-01") == []


def test_a_reader_waits_for_what_comes(node: HttpNode) -> None:
    node.create("m-wait")
    started = time.monotonic()
    assert node.values("m-wait", wait_ms=200) == []
    assert 0.15 < time.monotonic() - started < 10
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(node.values, "m-wait", wait_ms=20_000)
        node.produce("m-wait", {"value": "here"})
        assert waiting.result() == ["here"]


def test_a_transaction_that_was_aborted_is_not_read(node: HttpNode) -> None:
    node.create("m-txn")
    producer = Producer({"bootstrap.servers": node.bootstrap, "transactional.id": "m-txn"})
    producer.init_transactions()
    for value, commits in (("a", True), ("b", False), ("c", True)):
        producer.begin_transaction()
        producer.produce("m-txn", value=value)
        producer.flush()
        producer.commit_transaction() if commits else producer.abort_transaction()
    read = node.consume("m-txn", limit=10)
    assert [record["value"] for record in read["records"]] == ["a", "c"]
    assert read["next_offset"] == 6


def test_acks_are_as_asked(node: HttpNode) -> None:
    node.create("m-acks")
    for acks, status in (("all", 200), (-1, 200), (1, 200), (0, 202)):
        assert node.client.post("/topics/m-acks/produce", json={"value": "x", "acks": acks}).status_code == status
    assert node.client.post("/topics/m-acks/produce", json={"value": "x", "acks": 7}).status_code == 400
    assert len(node.values("m-acks", wait_ms=1000)) >= 3


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"[1]", b'{"valeu": 1}', b'{"partition": "x"}', b"\xff\xfe", b"[" * 100_000, b"null"]
)
def test_a_body_that_is_not_messages_is_400(node: HttpNode, body: bytes) -> None:
    answer = node.client.post("/topics/whatever/produce", content=body)
    assert error_of(answer)[:2] == (400, "bad_request")


def test_unknown_places_are_404_and_offsets_out_of_range_409(node: HttpNode) -> None:
    node.create("m-range")
    assert error_of(node.client.post("/topics/m-none/produce", json={"value": 1}))[:2] == (
        404,
        "unknown_topic_or_partition",
    )
    assert node.client.post("/topics/m-range/produce", json={"value": 1, "partition": 9}).status_code == 404
    assert node.client.post("/topics/m-range/produce", json={"value": 1, "partition": -1}).status_code == 404
    answer = node.client.get("/topics/m-range/partitions/0/consume", params={"offset": 5})
    assert error_of(answer) == (409, "offset_out_of_range", "OFFSET_OUT_OF_RANGE")
    for query in ({"offset": "never"}, {"limit": 0}, {"limit": "x"}, {"wait_ms": -1}, {"encoding": "morse"}):
        assert node.client.get("/topics/m-range/partitions/0/consume", params=query).status_code == 400, query


def test_a_message_larger_than_the_topic_takes_is_413(node: HttpNode) -> None:
    node.create("m-large")
    answer = node.client.post("/topics/m-large/produce", json={"value": "x" * 2_000_000})
    assert error_of(answer) == (413, "message_too_large", "MESSAGE_TOO_LARGE")


def test_ndjson_says_what_is_wrong_with_it() -> None:
    with pytest.raises(Exception, match="not what it should be"):
        read_messages(b'{"value": 1}\n{"value"', "application/x-ndjson", 10)
