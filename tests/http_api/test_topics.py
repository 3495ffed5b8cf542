"""Topics over HTTP."""

from tests.http_api.rig import HttpNode, error_of


def test_a_topic_is_made_shown_and_deleted(node: HttpNode) -> None:
    made = node.client.post(
        "/topics/t-life", json={"num_partitions": 3, "replication_factor": 1, "configs": {"retention.ms": 60000}}
    )
    assert made.status_code == 201
    assert made.json()["num_partitions"] == 3
    assert made.json()["configs"]["retention.ms"] == "60000"

    shown = node.client.get("/topics/t-life").json()
    assert [partition["leader"] for partition in shown["partitions"]] == [1, 1, 1]
    assert "t-life" in [topic["topic"] for topic in node.client.get("/topics").json()["topics"]]

    assert node.client.delete("/topics/t-life").status_code == 204
    assert error_of(node.client.get("/topics/t-life"))[:2] == (404, "unknown_topic_or_partition")


def test_a_topic_without_wishes_gets_the_defaults(node: HttpNode) -> None:
    made = node.client.post("/topics/t-plain")
    assert made.status_code == 201, made.text
    assert made.json()["num_partitions"] == 1


def test_a_topic_that_exists_is_409(node: HttpNode) -> None:
    node.create("t-twice")
    answer = node.client.post("/topics/t-twice", json={})
    assert error_of(answer) == (409, "topic_already_exists", "TOPIC_ALREADY_EXISTS")


def test_what_can_not_be_is_400(node: HttpNode) -> None:
    for body in ({"num_partitions": 0}, {"partitions": 3}, {"replication_factor": 9}, {"configs": {"no.such": "1"}}):
        answer = node.client.post("/topics/t-wrong", json=body)
        assert answer.status_code == 400, (body, answer.text)
    assert node.client.post("/topics/t-wrong", content=b"{").status_code == 400
    assert node.client.post("/topics/t-wrong", json={"rack_awareness": False}).status_code == 400
    assert node.client.get("/topics/no%20name").status_code in (400, 404)


def test_a_partition_is_shown_with_offsets_sizes_and_segments(node: HttpNode) -> None:
    node.create("t-part")
    node.produce("t-part", {"value": "a"}, {"value": "b"})

    shown = node.client.get("/topics/t-part/partitions/0").json()

    assert (shown["leader"], shown["replicas"], shown["isr"]) == (1, [1], [1])
    assert (shown["log_start_offset"], shown["high_watermark"]) == (0, 2)
    assert shown["size_bytes"]["1"] > 0
    assert [segment["base_offset"] for segment in shown["segments"]] == [0]
    assert error_of(node.client.get("/topics/t-part/partitions/7"))[:2] == (404, "unknown_topic_or_partition")
