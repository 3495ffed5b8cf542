"""Several consumers in one group, against a real node."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from ottla.client.consumer import Consumer
from ottla.client.message import Message
from ottla.testing.pytest_plugin import OttlaTopic
from ottla.types import TopicPartition
from tests.client.waiting import eventually

four_partitions = pytest.mark.parametrize("ottla_topic", [4], indirect=True)
every_strategy = pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])


def fill(topic: OttlaTopic, count: int) -> None:
    producer = topic.producer()
    for number in range(count):
        producer.send(topic.name, b"%d" % number, partition=number % topic.partitions)
    producer.flush()


def poll_until(consumers: list[Consumer], condition: Callable[[], bool]) -> list[Message]:
    """Let all of them poll in turns, as in one process each, until `condition` holds."""
    messages: list[Message] = []

    def turn() -> bool:
        for consumer in consumers:
            messages.extend(consumer.poll(20))
        return condition()

    eventually(turn, timeout_s=60)
    return messages


def member(topic: OttlaTopic, group: str, **settings: Any) -> Consumer:
    """With frequent heartbeats, by which members learn of a rebalance."""
    return topic.consumer(group_id=group, heartbeat_interval_ms=100, **settings)


def shares(*consumers: Consumer) -> list[int]:
    return sorted(len(consumer.assignment()) for consumer in consumers)


@four_partitions
@every_strategy
def test_partitions_are_split_and_every_record_is_read_once(ottla_topic: OttlaTopic, strategy: str) -> None:
    one, two = (member(ottla_topic, f"split-{strategy}", partition_assignment_strategy=strategy) for _ in range(2))
    poll_until([one, two], lambda: shares(one, two) == [2, 2])
    assert one.assignment() | two.assignment() == {TopicPartition(ottla_topic.name, number) for number in range(4)}

    fill(ottla_topic, 100)
    messages: list[Message] = []
    while len(messages) < 100:
        messages += poll_until([one, two], lambda: True)

    assert Counter(message.value for message in messages) == {b"%d" % number: 1 for number in range(100)}


@four_partitions
@every_strategy
def test_when_one_leaves_the_other_takes_over_where_it_stopped(ottla_topic: OttlaTopic, strategy: str) -> None:
    one, two = (member(ottla_topic, f"leave-{strategy}", partition_assignment_strategy=strategy) for _ in range(2))
    poll_until([one, two], lambda: shares(one, two) == [2, 2])
    fill(ottla_topic, 40)
    seen: list[Message] = []
    seen += eventually(lambda: one.poll(100, max_records=5))

    one.close()
    while len(seen) < 40:
        seen += poll_until([two], lambda: True)

    assert two.assignment() == {TopicPartition(ottla_topic.name, number) for number in range(4)}
    assert Counter(message.value for message in seen) == {b"%d" % number: 1 for number in range(40)}


@four_partitions
def test_a_member_is_told_what_it_gets_and_what_it_loses(ottla_topic: OttlaTopic) -> None:
    told: list[tuple[str, int]] = []
    one = member(ottla_topic, "told")
    one.subscribe(
        ottla_topic.name,
        on_assign=lambda _, partitions: told.append(("assigned", len(partitions))),
        on_revoke=lambda _, partitions: told.append(("revoked", len(partitions))),
    )
    poll_until([one], lambda: told == [("assigned", 4)])

    two = member(ottla_topic, "told")
    poll_until([one, two], lambda: shares(one, two) == [2, 2])

    assert told == [("assigned", 4), ("revoked", 4), ("assigned", 2)]
    one.close()
    assert told[-1] == ("revoked", 2)


def test_a_member_may_choose_where_it_starts(ottla_topic: OttlaTopic) -> None:
    fill(ottla_topic, 10)
    consumer = member(ottla_topic, "chosen")
    consumer.subscribe(ottla_topic.name, on_assign=lambda it, partitions: it.seek(partitions[0], 7))

    messages = poll_until([consumer], lambda: consumer.position((ottla_topic.name, 0)) == 10)

    assert [message.offset for message in messages] == [7, 8, 9]


@four_partitions
def test_a_member_may_commit_what_it_loses(ottla_topic: OttlaTopic) -> None:
    """Nothing is read twice, although nothing is committed but at the rebalance."""
    fill(ottla_topic, 40)
    one = member(ottla_topic, "commits", enable_auto_commit=False)
    one.subscribe(ottla_topic.name, on_revoke=lambda consumer, _: consumer.commit())
    seen: list[Message] = []
    seen += eventually(lambda: one.poll(100, max_records=10))

    two = member(ottla_topic, "commits", enable_auto_commit=False)
    seen += poll_until([one, two], lambda: shares(one, two) == [2, 2])
    while len(seen) < 40:
        seen += poll_until([one, two], lambda: True)

    assert Counter(message.value for message in seen) == {b"%d" % number: 1 for number in range(40)}


def test_a_member_may_commit_what_it_loses_by_closing(ottla_topic: OttlaTopic) -> None:
    fill(ottla_topic, 10)
    consumer = member(ottla_topic, "commits-at-close", enable_auto_commit=False)
    consumer.subscribe(ottla_topic.name, on_revoke=lambda it, _: it.commit())
    poll_until([consumer], lambda: consumer.position((ottla_topic.name, 0)) == 10)

    consumer.close()

    assert ottla_topic.admin().group_offsets("commits-at-close")[TopicPartition(ottla_topic.name, 0)].offset == 10


@four_partitions
def test_added_partitions_are_read(ottla_topic: OttlaTopic) -> None:
    consumer = member(ottla_topic, "grows", metadata_max_age_ms=200)
    poll_until([consumer], lambda: len(consumer.assignment()) == 4)

    ottla_topic.admin().create_partitions(ottla_topic.name, 6)

    poll_until([consumer], lambda: len(consumer.assignment()) == 6)


def test_a_static_member_comes_back_without_a_rebalance(ottla_topic: OttlaTopic) -> None:
    changes: list[str] = []
    stays = member(ottla_topic, "static", group_instance_id="stays")
    stays.subscribe(ottla_topic.name, on_revoke=lambda *_: changes.append("revoked"))
    poll_until([stays], lambda: bool(stays.assignment()))
    again = member(ottla_topic, "static", group_instance_id="again")
    poll_until([stays, again], lambda: len(ottla_topic.admin().describe_group("static").members) == 2)
    poll_until([stays, again], lambda: ottla_topic.admin().describe_group("static").state == "Stable")
    changes.clear()

    again.close()
    again = member(ottla_topic, "static", group_instance_id="again")
    poll_until([stays, again], lambda: ottla_topic.admin().describe_group("static").state == "Stable")

    assert changes == []
    assert {member.instance_id for member in ottla_topic.admin().describe_group("static").members} == {"stays", "again"}
