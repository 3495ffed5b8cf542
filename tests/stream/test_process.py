"""`process` in this process, against a real node: what is written, what is tried again, what is a dead letter."""

import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer as RawConsumer
from confluent_kafka import Producer as RawProducer
from confluent_kafka import TopicPartition as RawPartition

from ottla.client.errors import ProducerFencedError
from ottla.client.message import Message
from ottla.client.settings import IsolationLevel
from ottla.config import GroupConfig
from ottla.errors import ConfigError
from ottla.stream import Output, Processed, Reject, process
from ottla.stream.dead_letter import DeadLetter, parse
from ottla.testing.pytest_plugin import OttlaNode, OttlaTopic
from tests.client.waiting import eventually

four_partitions = pytest.mark.parametrize("ottla_topic", [4], indirect=True)
IDLE_MS = 1_500


def fill(topic: OttlaTopic, count: int, start: int = 0) -> None:
    producer = topic.producer(linger_ms=5)
    for number in range(start, start + count):
        producer.send(topic.name, str(number), key=f"key {number % 7}", headers={"n": str(number)})
    producer.flush()


def run(topic: OttlaTopic, function: Callable[[Message], Any], **settings: Any) -> Processed:
    given = {"group": f"{topic.name}-group", "idle_ms": IDLE_MS, "backoff_ms": 10, **settings}
    return process(topic.name, f"{topic.name}-out", function, bootstrap_servers=topic.bootstrap_servers, **given)


def committed(topic: OttlaTopic, name: str, count: int) -> list[Message]:
    """Exactly `count` records: a little longer is waited for one too many."""
    consumer = topic.consumer(name, isolation_level=IsolationLevel.READ_COMMITTED)
    found: list[Message] = []
    while messages := consumer.poll(10_000 if len(found) < count else 500):
        found += messages
    assert len(found) == count, [message.value for message in found]
    return found


def letters(topic: OttlaTopic, count: int, **settings: Any) -> list[tuple[Message, DeadLetter]]:
    found = committed(topic, f"{topic.name}.{topic.name}-group.dlq", count)
    parsed = [(message, parse(message.headers)) for message in found]
    return [(message, letter) for message, letter in parsed if letter is not None]


@four_partitions
def test_every_record_is_processed_once_over_several_runs(ottla_topic: OttlaTopic) -> None:
    fill(ottla_topic, 300)
    first = run(ottla_topic, lambda message: int(message.value) * 2, batch_records=50)
    fill(ottla_topic, 100, start=300)
    second = run(ottla_topic, lambda message: int(message.value) * 2)

    found = committed(ottla_topic, f"{ottla_topic.name}-out", 400)

    assert (first.records, second.records, second.outputs) == (300, 100, 100)
    assert sorted(int(message.value) for message in found) == [2 * number for number in range(400)]
    assert {message.key for message in found} == {b"key %d" % number for number in range(7)}


def test_a_function_may_return_nothing_one_or_many(ottla_topic: OttlaTopic) -> None:
    fill(ottla_topic, 4)

    def function(message: Message) -> Any:
        number = int(message.value)
        if number == 0:
            return None
        if number == 1:
            return [b"a", {"b": 1}]
        if number == 2:
            return (Output(value=f"c{n}", key="k", headers=(("h", b"1"),)) for n in range(2))
        return Output(value=b"elsewhere", topic=f"{ottla_topic.name}-other")

    done = run(ottla_topic, function)

    assert (done.records, done.outputs, done.dead_letters) == (4, 5, 0)
    found = committed(ottla_topic, f"{ottla_topic.name}-out", 4)
    assert sorted(message.value for message in found) == [b"a", b"c0", b"c1", b'{"b":1}']
    assert {message.key for message in found if message.value.startswith(b"c")} == {b"k"}
    assert committed(ottla_topic, f"{ottla_topic.name}-other", 1)[0].value == b"elsewhere"


def test_a_failure_that_passes_is_tried_again_in_order(ottla_topic: OttlaTopic) -> None:
    fill(ottla_topic, 3)
    attempts = itertools.count(1)
    seen: list[bytes] = []

    def function(message: Message) -> Any:
        seen.append(message.value)
        if message.value == b"1" and next(attempts) < 4:
            raise ConnectionError("not now")
        return message.value

    done = run(ottla_topic, function, attempts=4)

    assert seen == [b"0", b"1", b"1", b"1", b"1", b"2"]
    assert done.dead_letters == 0
    assert [message.value for message in committed(ottla_topic, f"{ottla_topic.name}-out", 3)] == [b"0", b"1", b"2"]


def test_a_poison_record_becomes_a_dead_letter_that_tells_its_story(ottla_topic: OttlaTopic) -> None:
    fill(ottla_topic, 3)

    def function(message: Message) -> Any:
        if message.value == b"1":
            raise ValueError("poison")
        return message.value

    done = run(ottla_topic, function, attempts=3)

    assert (done.records, done.outputs, done.dead_letters) == (3, 2, 1)
    [(message, letter)] = letters(ottla_topic, 1)
    assert (message.key, message.value, letter.headers) == (b"key 1", b"1", (("n", b"1"),))
    assert (letter.at, letter.offset) == ((ottla_topic.name, 0), 1)
    assert (letter.deliveries, letter.group, letter.error) == (3, f"{ottla_topic.name}-group", "ValueError: poison")
    assert 'raise ValueError("poison")' in letter.traceback
    assert letter.failed_at_ms >= letter.timestamp_ms > 0


@pytest.mark.parametrize(
    ("function", "settings", "said"),
    [
        (lambda message: (_ for _ in ()).throw(Reject("no use")), {}, "no use"),
        (lambda message: message.value, {"value_deserializer": lambda data: data.decode("utf-16")}, "deserialized"),
        (lambda message: b"x" * 1_000_001, {}, "is the most"),
        (lambda message: {1, 2}, {"attempts": 1}, "can't be turned into bytes"),
    ],
)
def test_what_can_never_work_is_a_dead_letter_at_once(
    ottla_topic: OttlaTopic, function: Callable[[Message], Any], settings: dict[str, Any], said: str
) -> None:
    fill(ottla_topic, 1)
    done = run(ottla_topic, function, **settings)
    [(message, letter)] = letters(ottla_topic, 1)
    assert done.dead_letters == 1
    assert (message.value, letter.deliveries) == (b"0", 1)
    assert said in letter.error


def test_without_a_dead_letter_topic_the_failure_ends_the_stream_and_nothing_is_committed(
    ottla_topic: OttlaTopic,
) -> None:
    fill(ottla_topic, 2)
    with pytest.raises(ZeroDivisionError):
        run(ottla_topic, lambda message: 1 // int(message.value), attempts=2, dead_letter_topic=None)
    done = run(ottla_topic, lambda message: message.value)
    assert done.records == 2


def test_outputs_beyond_the_bound_go_into_transactions_of_their_own(ottla_topic: OttlaTopic) -> None:
    fill(ottla_topic, 10)
    done = run(ottla_topic, lambda message: b"x" * 1_000, batch_bytes=2_500)
    assert done.records == 10
    offsets = [message.offset for message in committed(ottla_topic, f"{ottla_topic.name}-out", 10)]
    assert offsets[-1] >= 12, "the marker of each transaction takes an offset"


def test_it_stops_when_told_to_even_while_it_waits_for_the_next_attempt(ottla_topic: OttlaTopic) -> None:
    fill(ottla_topic, 1)
    failing, stop, results = threading.Event(), threading.Event(), list[Processed]()

    def function(message: Message) -> Any:
        failing.set()
        raise ConnectionError

    def work() -> None:
        results.append(run(ottla_topic, function, backoff_ms=60_000, backoff_max_ms=60_000, stop=stop, idle_ms=None))

    thread = threading.Thread(target=work)
    thread.start()
    assert failing.wait(20)
    stop.set()
    thread.join(20)
    assert results == [Processed()]


@four_partitions
def test_two_that_share_a_group_split_the_work_and_double_nothing(ottla_topic: OttlaTopic) -> None:
    fill(ottla_topic, 200)
    stop = threading.Event()
    results: list[Processed] = []

    def work() -> None:
        results.append(run(ottla_topic, lambda message: message.value, batch_records=5, stop=stop, idle_ms=None))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for number, thread in enumerate(threads):
        thread.start()
        fill(ottla_topic, 100, start=200 + 100 * number)

    output = ottla_topic.consumer(f"{ottla_topic.name}-out", isolation_level=IsolationLevel.READ_COMMITTED)
    found: list[int] = []

    def all_came() -> bool:
        found.extend(int(message.value) for message in output.poll(500))
        return len(found) >= 500

    eventually(all_came, 60)
    stop.set()
    for thread in threads:
        thread.join(30)
    found += [int(message.value) for message in output.poll(1_000)]
    assert sorted(found) == list(range(500))
    assert sum(result.records for result in results) == 500


def test_a_second_instance_with_the_same_name_replaces_the_first(ottla_topic: OttlaTopic) -> None:
    fill(ottla_topic, 1)
    running, errors = threading.Event(), list[BaseException]()

    def first(message: Message) -> Any:
        running.set()
        return message.value

    def work() -> None:
        try:
            run(ottla_topic, first, instance="one", idle_ms=30_000)
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    assert running.wait(20)
    eventually(lambda: len(committed(ottla_topic, f"{ottla_topic.name}-out", 1)) == 1)
    fill(ottla_topic, 1, start=1)
    run(ottla_topic, lambda message: message.value, instance="one")
    fill(ottla_topic, 1, start=2)
    thread.join(60)
    assert not thread.is_alive()
    assert errors
    assert isinstance(errors[0], ProducerFencedError) or "fenced" in str(errors[0]).lower()


def test_offsets_of_a_transaction_that_is_not_decided_are_waited_for(ottla_topic: OttlaTopic) -> None:
    """A stream that was killed between sending its offsets and the end of its transaction: its successor must not begin
    before that is decided."""
    fill(ottla_topic, 2)
    group = f"{ottla_topic.name}-group"
    raw = RawProducer(
        {
            "bootstrap.servers": ottla_topic.bootstrap_servers,
            "transactional.id": f"{group}-dead",
            "transaction.timeout.ms": 60_000,
        }
    )
    raw.init_transactions(30)
    raw.begin_transaction()
    member = RawConsumer({"bootstrap.servers": ottla_topic.bootstrap_servers, "group.id": group})
    raw.send_offsets_to_transaction([RawPartition(ottla_topic.name, 0, 1)], member.consumer_group_metadata(), 30)
    member.close()
    results: list[Processed] = []
    thread = threading.Thread(target=lambda: results.append(run(ottla_topic, lambda message: message.value)))
    thread.start()
    eventually(lambda: ottla_topic.admin().describe_group(group).members)
    raw.commit_transaction(30)
    thread.join(30)
    assert [result.records for result in results] == [1], "the record at offset 0 was done in that transaction"


@pytest.fixture
def impatient(ottla_node_factory: Callable[..., OttlaNode]) -> Iterator[OttlaTopic]:
    """A topic on a node where a session may be shorter than Kafka's least."""
    groups = GroupConfig(group_initial_rebalance_delay_ms=0, group_min_session_timeout_ms=1_000)
    topic = OttlaTopic(ottla_node_factory(groups=groups).bootstrap_servers, "impatient", 1)
    try:
        topic.admin().create_topic(topic.name, partitions=1)
        yield topic
    finally:
        topic.close()


def test_a_slow_function_does_not_lose_its_place_in_the_group(impatient: OttlaTopic) -> None:
    fill(impatient, 8)
    calls: list[bytes] = []

    def slow(message: Message) -> Any:
        calls.append(message.value)
        threading.Event().wait(0.4)
        return message.value

    patience = {"max.poll.interval.ms": 2_000, "session.timeout.ms": 2_000}  # all of them take longer than that
    done = run(impatient, slow, extra={**patience, "heartbeat.interval.ms": 200})

    assert done.records == 8
    assert calls == [b"%d" % number for number in range(8)], "none was done again"


@pytest.mark.parametrize("settings", [{"attempts": 0}, {"batch_records": 0}])
def test_settings_that_make_no_sense_are_refused(ottla_topic: OttlaTopic, settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        run(ottla_topic, lambda message: None, **settings)
