"""`ottla topic`."""

from tests.cli.command import Ottla


def test_a_created_topic_is_listed_and_described(ottla: Ottla, topic_name: str) -> None:
    created = ottla("topic", "create", topic_name, "--partitions", "3", "--config", "retention.ms=60000")

    assert created.stdout == f"created  {topic_name}\n"
    listed = ottla("topic", "list", "--json").json
    assert {"topic": topic_name, "partitions": 3, "replication_factor": 1} in listed
    [described] = ottla("topic", "describe", topic_name, "--json").json
    assert described["partitions"] == 3
    assert described["configs"] == {"retention.ms": "60000"}
    assert [part["end_offset"] for part in described["partition_details"]] == [0, 0, 0]


def test_people_get_a_table(ottla: Ottla, topic: str) -> None:
    assert ottla("topic", "list").lines[0].split() == ["TOPIC", "PARTITIONS", "REPLICAS"]
    lines = ottla("topic", "describe", topic).lines
    assert lines[0].split() == ["topic", topic]
    assert lines[-1].split()[:4] == ["0", "1", "1", "1"]


def test_several_topics_are_created_and_deleted_at_once(ottla: Ottla, topic_name: str) -> None:
    names = [f"{topic_name}-a", f"{topic_name}-b"]

    assert ottla("topic", "create", *names, "--json").json == {"created": names}
    assert ottla("topic", "delete", *names, "--json").json == {"deleted": names}
    assert not set(names) & {entry["topic"] for entry in ottla("topic", "list", "--json").json}


def test_a_topic_that_exists_is_an_error_unless_that_is_fine(ottla: Ottla, topic: str) -> None:
    refused = ottla("topic", "create", topic, code=1)

    assert "already exists" in refused.stderr
    assert "--if-not-exists" in refused.stderr
    assert ottla("topic", "create", topic, "--if-not-exists", "--json").json == {"created": []}


def test_a_topic_that_does_not_exist_is_an_error_unless_that_is_fine(ottla: Ottla, topic_name: str) -> None:
    for arguments in (["describe", topic_name], ["delete", topic_name], ["alter", topic_name, "--partitions", "2"]):
        refused = ottla("topic", *arguments, code=1)
        assert refused.stderr.count("\n") == 1
        assert "`ottla topic list`" in refused.stderr
    assert ottla("topic", "delete", topic_name, "--if-exists", "--json").json == {"deleted": []}


def test_a_name_that_is_not_allowed_is_refused(ottla: Ottla) -> None:
    assert "bad name" in ottla("topic", "create", "bad name", code=1).stderr


def test_partitions_are_added_and_configs_changed(ottla: Ottla, topic: str) -> None:
    changed = ottla("topic", "alter", topic, "--partitions", "4", "--config", "retention.ms=1000", "--json").json

    assert changed == {"topic": topic, "partitions": 4, "set": {"retention.ms": "1000"}}
    [described] = ottla("topic", "describe", topic, "--json").json
    assert (described["partitions"], described["configs"]) == (4, {"retention.ms": "1000"})

    ottla("topic", "alter", topic, "--delete-config", "retention.ms")
    assert ottla("topic", "describe", topic, "--json").json[0]["configs"] == {}


def test_partitions_can_not_become_fewer(ottla: Ottla, topic_name: str) -> None:
    ottla("topic", "create", topic_name, "--partitions", "3")

    assert ottla("topic", "alter", topic_name, "--partitions", "2", code=1).stdout == ""


def test_alter_without_a_change_is_wrong_usage(ottla: Ottla, topic: str) -> None:
    assert "Nothing to change" in ottla("topic", "alter", topic, code=2).stderr


def test_records_before_an_offset_are_deleted(ottla: Ottla, topic: str) -> None:
    ottla("produce", topic, stdin="a\nb\nc\n")

    deleted = ottla("topic", "delete-records", topic, "--before", "2", "--json").json

    assert deleted == [{"topic": topic, "partition": 0, "start_offset": 2}]
    assert ottla("consume", topic).lines == ["c"]


def test_all_but_the_last_records_are_deleted(ottla: Ottla, topic: str) -> None:
    ottla("produce", topic, stdin="a\nb\nc\n")

    ottla("topic", "delete-records", topic, "--before", "-1")

    assert ottla("consume", topic).lines == ["c"]


def test_records_of_a_partition_that_is_not_there_can_not_be_deleted(ottla: Ottla, topic: str) -> None:
    refused = ottla("topic", "delete-records", topic, "--before", "end", "--partition", "7", code=1)

    assert refused.stderr == f"ottla: {topic} has no partition 7. They go from 0 to 0.\n"
