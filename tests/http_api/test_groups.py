"""Consumer groups over HTTP, alone and together with Kafka clients."""

import threading
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from tests.http_api.rig import HttpNode, error_of


def post(node: HttpNode, group: str, what: str, **body: Any) -> Any:
    answer = node.client.post(f"/consumer-groups/{group}/{what}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def poll_all(node: HttpNode, group: str, consumer_id: str, wanted: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(50):
        found += post(node, group, "poll", consumer_id=consumer_id, wait_ms=2_000)["records"]
        if len(found) >= wanted:
            break
    return found


def test_a_member_reads_what_is_written_and_goes_on_where_it_has_committed(node: HttpNode) -> None:
    node.create("g-one")
    node.produce("g-one", {"value": "a"}, {"value": "b"})
    registered = post(node, "one", "register", consumer_id="c1", topics=["g-one"])
    assert registered["assignment"] == [{"topic": "g-one", "partition": 0}]

    assert [record["value"] for record in poll_all(node, "one", "c1", 2)] == ["a", "b"]
    committed = node.client.post("/consumer-groups/one/topics/g-one/partitions/0/commit", json={"offset": 1})
    assert committed.status_code == 200, committed.text
    assert node.client.post("/consumer-groups/one/leave", json={"consumer_id": "c1"}).status_code == 204

    post(node, "one", "register", consumer_id="c2", topics=["g-one"])
    assert [record["value"] for record in poll_all(node, "one", "c2", 1)] == ["b"]


def test_two_members_share_the_partitions(node: HttpNode) -> None:
    node.create("g-two", partitions=4)
    post(node, "two", "register", consumer_id="c1", topics=["g-two"])
    second = node.client.build_request(
        "POST", "/consumer-groups/two/register", json={"consumer_id": "c2", "topics": ["g-two"]}
    )
    joining = threading.Thread(target=lambda: node.client.send(second))
    joining.start()
    shares: dict[str, Any] = {}
    for _ in range(100):
        shares = {name: post(node, "two", "poll", consumer_id=name, wait_ms=100) for name in ("c1",)}
        if len(shares["c1"]["assignment"]) == 2:
            break
    joining.join()
    shares["c2"] = post(node, "two", "heartbeat", consumer_id="c2")
    owned = [each["partition"] for share in shares.values() for each in share["assignment"]]
    assert sorted(owned) == [0, 1, 2, 3]


def test_http_and_kafka_members_share_one_group(node: HttpNode) -> None:
    node.create("g-both", partitions=2)
    consumer = Consumer(
        {
            "bootstrap.servers": node.bootstrap,
            "group.id": "both",
            "auto.offset.reset": "earliest",
            "partition.assignment.strategy": "range",
            "session.timeout.ms": 10_000,
        }
    )
    try:
        consumer.subscribe(["g-both"])
        while not consumer.assignment():
            consumer.poll(0.1)
        answers: list[Any] = []
        joining = threading.Thread(
            target=lambda: answers.append(post(node, "both", "register", consumer_id="web", topics=["g-both"]))
        )
        joining.start()
        while len(consumer.assignment()) != 1 or joining.is_alive():
            consumer.poll(0.1)
        joining.join()
        [mine] = consumer.assignment()
        [theirs] = answers[0]["assignment"]
        assert {mine.partition, theirs["partition"]} == {0, 1}

        node.produce("g-both", {"value": "x", "partition": 0}, {"value": "y", "partition": 1})
        [record] = poll_all(node, "both", "web", 1)
        assert record["partition"] == theirs["partition"]
        committed = node.client.post(
            f"/consumer-groups/both/topics/g-both/partitions/{theirs['partition']}/commit",
            json={"offset": 1, "consumer_id": "web"},
        )
        assert committed.status_code == 200, committed.text
        [seen] = consumer.committed([TopicPartition("g-both", theirs["partition"])])
        assert seen.offset == 1
    finally:
        consumer.close()


def test_a_group_is_described_with_its_members_and_lag_in_records_and_seconds(node: HttpNode) -> None:
    node.create("g-lag")
    node.produce("g-lag", {"value": "a"}, {"value": "b"}, {"value": "c"})
    post(node, "lag", "register", consumer_id="c1", topics=["g-lag"])
    commit = node.client.post("/consumer-groups/lag/topics/g-lag/partitions/0/commit", json={"offset": 1})
    assert commit.status_code == 200, commit.text

    described = node.client.get("/consumer-groups/lag").json()

    assert described["state"] == "Stable"
    assert [member["consumer_id"] for member in described["members"]] == ["c1"]
    assert described["lag"]["records"] == 2
    assert 0 < described["lag"]["seconds"] < 60
    assert "lag" in [group["group"] for group in node.client.get("/consumer-groups").json()["groups"]]


def test_a_consumer_that_nobody_registered_is_404(node: HttpNode) -> None:
    answer = node.client.post("/consumer-groups/nobody/poll", json={"consumer_id": "ghost"})
    assert error_of(answer) == (404, "unknown_member_id", "UNKNOWN_MEMBER_ID")


def test_a_group_that_does_not_exist_is_404(node: HttpNode) -> None:
    assert error_of(node.client.get("/consumer-groups/never"))[:2] == (404, "group_id_not_found")


def test_a_topic_that_does_not_exist_can_not_be_subscribed_to(node: HttpNode) -> None:
    answer = node.client.post("/consumer-groups/g/register", json={"consumer_id": "c", "topics": ["g-nothing"]})
    assert error_of(answer)[:2] == (404, "unknown_topic_or_partition")


def test_an_outsider_commits_only_to_a_group_without_members(node: HttpNode) -> None:
    node.create("g-out", partitions=2)
    place = "/consumer-groups/out/topics/g-out/partitions/0/commit"
    assert node.client.post(place, json={"offset": 0}).status_code == 200
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "out"})
    try:
        consumer.subscribe(["g-out"])
        while not consumer.assignment():
            consumer.poll(0.1)
        assert error_of(node.client.post(place, json={"offset": 0}))[:2] == (409, "group_has_members")
    finally:
        consumer.close()
