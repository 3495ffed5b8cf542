"""A producer, a node that is killed again and again, and a checker.

The producer remembers every acknowledgement. The checker reads everything back and looks for the four ways in which an
acknowledged record can be wronged: it is missing, it is at another offset, it is there twice, or a committed offset of
a group was forgotten.
"""

import random
import time
from collections import Counter
from dataclasses import dataclass, field

from confluent_kafka import Message, Producer, TopicPartition

from tests.interop.confluent import Deliveries, new_consumer, new_producer, read_all
from tests.interop.node_process import NodeProcess
from tests.robustness.raw_client import create_topic

TOPIC = "killed"
PARTITIONS = 3
GROUP = "the-group"


@dataclass(slots=True)
class Outcome:
    acknowledged: int = 0
    kills: int = 0
    problems: list[str] = field(default_factory=list)


def run(node: NodeProcess, *, kills: int, seed: int, records_per_kill: int = 3000) -> Outcome:
    """Kill the node `kills` times at moments drawn from `seed`, while records are written."""
    generator = random.Random(seed)
    outcome, deliveries = Outcome(), Deliveries()
    node.start()
    producer = new_producer(
        node.bootstrap,
        enable_idempotence=True,
        linger_ms=1,
        reconnect_backoff_ms=50,
        reconnect_backoff_max_ms=200,
        retry_backoff_ms=50,
        retry_backoff_max_ms=200,
        topic_metadata_refresh_interval_ms=1000,
    )
    _create(node)
    number = 0
    for _ in range(kills):
        number = _produce_some(producer, deliveries, number, records_per_kill)
        _let_run(producer, generator.uniform(0.02, 0.6))
        committed = _commit(node, generator.randrange(1, 1_000_000))
        node.kill()
        outcome.kills += 1
        node.start()
        outcome.problems += _check_commit(node, committed)
    assert producer.flush(60) == 0, node.log()
    outcome.acknowledged = len(deliveries.delivered)
    outcome.problems += [str(error) for error in deliveries.errors]
    outcome.problems += check(deliveries.delivered, _stored(node))
    return outcome


def check(acknowledged: list[Message], stored: list[Message]) -> list[str]:
    problems = []
    at = {(message.partition(), message.offset()): message.value() for message in stored}
    values = {(message.partition(), message.value()) for message in stored}
    for message in acknowledged:
        place = (message.partition(), message.offset())
        if message.offset() is None and (message.partition(), message.value()) in values:
            continue  # the client knows that it is stored, but not where: the answer to its first attempt was lost
        if place not in at:
            problems.append(f"lost: {message.value()!r} was acknowledged at {place}")
        elif at[place] != message.value():
            problems.append(f"moved: {message.value()!r} was acknowledged at {place}, where {at[place]!r} is now")
    for value, times in Counter(message.value() for message in stored).items():
        if times > 1:
            problems.append(f"duplicate: {value!r} is there {times} times")
    return problems


def _create(node: NodeProcess) -> None:
    create_topic(node.bootstrap, TOPIC, partitions=PARTITIONS, config={"segment.bytes": str(1 << 20)})


def _produce_some(producer: Producer, deliveries: Deliveries, first: int, count: int) -> int:
    for number in range(first, first + count):
        value = b"%d %s" % (number, b"x" * (number % 200))
        producer.produce(TOPIC, value, partition=number % PARTITIONS, on_delivery=deliveries)
    return first + count


def _let_run(producer: Producer, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        producer.poll(0.01)


def _commit(node: NodeProcess, offset: int) -> int:
    consumer = new_consumer(node.bootstrap, GROUP)
    consumer.commit(offsets=[TopicPartition(TOPIC, 0, offset)], asynchronous=False)
    consumer.close()
    return offset


def _check_commit(node: NodeProcess, expected: int) -> list[str]:
    consumer = new_consumer(node.bootstrap, GROUP)
    (found,) = consumer.committed([TopicPartition(TOPIC, 0)], timeout=20)
    consumer.close()
    return [] if found.offset == expected else [f"committed {expected}, found {found.offset}"]


def _stored(node: NodeProcess) -> list[Message]:
    consumer = new_consumer(node.bootstrap)
    ends = [consumer.get_watermark_offsets(TopicPartition(TOPIC, p), timeout=20)[1] for p in range(PARTITIONS)]
    consumer.close()
    return read_all(node.bootstrap, TOPIC, sum(ends), partitions=range(PARTITIONS))
