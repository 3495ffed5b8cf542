"""librdkafka (confluent-kafka): a consumer that reads at the tail is served the short way."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.embedded import EmbeddedNode
from ottla.protocol.known_fetch import KnownFetch
from ottla.runtime.fetcher import Fetcher
from tests.interop.confluent import new_consumer, new_producer, read, send

ROUNDS = 20


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_what_it_sends_is_known_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, isolation: str) -> None:
    taken: Counter[bool] = Counter()
    fetch_again = Fetcher.fetch_again

    def noted(fetcher: Fetcher, known: KnownFetch, offsets: Sequence[int]) -> Any:
        answer = fetch_again(fetcher, known, offsets)
        taken[answer is not None] += 1
        return answer

    monkeypatch.setattr(Fetcher, "fetch_again", noted)
    with EmbeddedNode(tmp_path) as node:
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        for made in admin.create_topics([NewTopic("t", 3, 1), NewTopic("u", 2, 1)]).values():
            made.result(30)
        consumer = new_consumer(node.bootstrap, isolation_level=isolation)
        consumer.assign([TopicPartition("t", index, 0) for index in range(3)])
        consumer.incremental_assign([TopicPartition("u", index, 0) for index in range(2)])
        producer = new_producer(node.bootstrap, linger_ms=0)
        for number in range(ROUNDS):
            for topic, partitions in (("t", 3), ("u", 2)):
                send(producer, topic, [b"%d" % number], partition=number % partitions)
                (message,) = read(consumer, 1)
                assert (message.topic(), message.value()) == (topic, b"%d" % number)
        consumer.close()
    assert taken[True] >= ROUNDS
