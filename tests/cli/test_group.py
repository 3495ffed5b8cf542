"""`ottla group`."""

import re
import time

import pytest
from confluent_kafka import Consumer

from tests.cli.command import Ottla
from tests.interop.confluent import new_producer


@pytest.fixture
def group(bootstrap: str, topic: str) -> str:
    """A group that has read two of five records; the second is from 83 minutes ago, the third from 100 seconds."""
    now_ms = int(time.time() * 1_000)
    producer = new_producer(bootstrap)
    for age_s in (10_000, 5_000, 100, 50, 0):
        producer.produce(topic, str(age_s), timestamp=now_ms - 1_000 * age_s)
    assert producer.flush(30) == 0
    name = f"{topic}-readers"
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": name, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    for _ in range(2):
        message = consumer.poll(30)
        assert message is not None
        consumer.commit(message, asynchronous=False)
    consumer.close()
    return name


def test_a_group_is_listed(ottla: Ottla, group: str) -> None:
    assert {"group": group, "state": "Empty", "type": "Classic"} in ottla("group", "list", "--json").json
    assert group in ottla("group", "list").stdout


def test_lag_is_told_in_records_and_in_seconds(ottla: Ottla, topic: str, group: str) -> None:
    described = ottla("group", "describe", group, "--json").json

    [partition] = described["partitions"]
    assert (partition["topic"], partition["committed_offset"], partition["end_offset"]) == (topic, 2, 5)
    assert partition["lag_records"] == described["lag_records"] == 3
    assert 100 <= partition["lag_seconds"] < 160
    assert described["lag_seconds"] == partition["lag_seconds"]


def test_a_group_that_has_caught_up_is_no_second_behind(ottla: Ottla, topic: str, group: str) -> None:
    ottla("consume", topic, "--group", group)

    described = ottla("group", "describe", group, "--json").json

    assert (described["lag_records"], described["lag_seconds"]) == (0, 0.0)


def test_people_get_a_table_with_the_lag(ottla: Ottla, topic: str, group: str) -> None:
    lines = ottla("group", "describe", group).lines

    assert lines[0].split() == ["group", group]
    assert lines[-1].split()[:5] == [topic, "0", "2", "5", "3"]
    assert re.search(r" 1m [45]\ds | 2m \d+s ", lines[-1])


def test_members_are_shown_while_they_read(ottla: Ottla, topic: str, topic_name: str) -> None:
    with ottla.running("consume", topic, "--group", topic_name, "--follow") as reader:
        assert reader.stdout is not None
        ottla("produce", topic, stdin="x\n")
        assert reader.stdout.readline() == b"x\n"

        described = ottla("group", "describe", topic_name, "--json").json

        assert described["state"] == "Stable"
        [member] = described["members"]
        assert member["client_id"] == "ottla-cli"
        assert member["partitions"] == [{"topic": topic, "partition": 0}]
        assert described["partitions"][0]["member_id"] == member["member_id"]
        refused = ottla("group", "reset", topic_name, "--to", "beginning", "--topic", topic, "--execute", code=1)
        assert refused.stderr.startswith("ottla: ")
        ottla("group", "delete", topic_name, code=1)


def test_a_group_that_is_not_there_is_refused(ottla: Ottla) -> None:
    refused = ottla("group", "describe", "nobody-at-all", code=1)

    assert refused.stdout == ""
    assert refused.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("place", "target"),
    [
        (["--to", "beginning"], 0),
        (["--to", "end"], 5),
        (["--to", "4"], 4),
        (["--to", "99"], 5),
        (["--to", "-1"], 4),
        (["--to", "-2h"], 1),
        (["--shift", "-1"], 1),
        (["--shift", "2"], 4),
        (["--shift", "-99"], 0),
    ],
)
def test_reset_moves_a_group(ottla: Ottla, topic: str, group: str, place: list[str], target: int) -> None:
    planned = ottla("group", "reset", group, *place, "--json").json

    move = {"topic": topic, "partition": 0, "current_offset": 2, "target_offset": target}
    assert planned == {"group": group, "executed": False, "offsets": [move]}
    assert ottla("group", "describe", group, "--json").json["partitions"][0]["committed_offset"] == 2

    done = ottla("group", "reset", group, *place, "--execute", "--json").json

    assert done == {"group": group, "executed": True, "offsets": [move]}
    assert ottla("group", "describe", group, "--json").json["partitions"][0]["committed_offset"] == target


def test_a_dry_run_says_that_nothing_was_changed(ottla: Ottla, group: str) -> None:
    assert "Nothing was changed" in ottla("group", "reset", group, "--to", "end").stderr


def test_reset_can_begin_a_group_on_some_partitions_of_a_topic(ottla: Ottla, topic_name: str) -> None:
    ottla("topic", "create", topic_name, "--partitions", "3")

    done = ottla(
        "group", "reset", topic_name, "--to", "end", "--topic", f"{topic_name}:0,2", "--execute", "--json"
    ).json

    assert [(move["partition"], move["current_offset"]) for move in done["offsets"]] == [(0, None), (2, None)]


def test_reset_needs_one_place(ottla: Ottla, group: str) -> None:
    ottla("group", "reset", group, code=2)
    ottla("group", "reset", group, "--to", "end", "--shift", "1", code=2)


def test_a_deleted_group_is_gone(ottla: Ottla, group: str) -> None:
    assert ottla("group", "delete", group, "--json").json == {"deleted": [group]}

    assert group not in [entry["group"] for entry in ottla("group", "list", "--json").json]
    ottla("group", "delete", group, code=1)
