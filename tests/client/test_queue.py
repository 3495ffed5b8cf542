"""The queue in both modes, in one process. What several processes do with it is in test_queue_processes."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import murmur2

import ottla
from ottla.client.errors import ClosedError, QueueError, QueueUnavailableError
from ottla.client.queue import MANY, Enqueued, Queue
from ottla.client.queue_consumer import QueueConsumer, QueueMessage
from ottla.client.queue_target import QueueMode
from ottla.errors import ConfigError
from ottla.testing.pytest_plugin import OttlaNode, OttlaTopic
from tests.client.waiting import eventually

Opener = Callable[..., Queue]


@pytest.fixture(params=["file", "kafka"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a queue can be: every test that takes this runs in both modes, unchanged."""
    if request.param == "file":
        return str(tmp_path / "queue")
    node: OttlaNode = request.getfixturevalue("ottla_node")
    return f"kafka://{node.bootstrap_servers}/{tmp_path.name}-{abs(hash(tmp_path))}"


@pytest.fixture
def queue(target: str) -> Iterator[Queue]:
    with ottla.open(target, partitions=4) as opened:
        yield opened


def read(consumer: QueueConsumer, count: int) -> list[QueueMessage]:
    messages: list[QueueMessage] = []
    while len(messages) < count:
        batch = consumer.poll(10_000)
        assert batch, f"only {len(messages)} of {count} messages came"
        messages += batch
    return messages


def read_by(queue: Queue, group: str, count: int) -> list[bytes]:
    with queue.consumer(group) as consumer:
        return [message.data for message in read(consumer, count)]


def test_a_queue_needs_nothing_but_a_place(queue: Queue) -> None:
    assert queue.partitions == 4
    assert queue.hosting == (queue.mode is QueueMode.FILE)


def test_a_message_goes_to_the_partition_of_its_client_and_offsets_count_up(queue: Queue) -> None:
    for client in ("alice", "bob", 7):
        partition = murmur2(str(client).encode(), 4)
        first = queue.enqueue(client, "one")
        second = queue.enqueue(client, "two")

        assert first.partition == second.partition == partition
        assert second.offset == first.offset + 1


def test_what_was_enqueued_is_read_with_its_client(queue: Queue) -> None:
    queue.enqueue("a", "text")
    queue.enqueue("a", {"number": 1})
    queue.enqueue("a", b"\x00\xff")

    with queue.consumer("readers") as consumer:
        text, number, raw = read(consumer, 3)

    assert (text.client_id, text.text()) == ("a", "text")
    assert number.json() == {"number": 1}
    assert raw.data == b"\x00\xff"
    assert raw.timestamp > 1_600_000_000_000


def test_many_messages_have_one_result_each_in_order(queue: Queue) -> None:
    count = MANY + 5

    enqueued = queue.enqueue_many((f"client-{number % 10}", str(number)) for number in range(count))

    assert len(enqueued) == len(set(enqueued)) == count
    expected = {result: str(number).encode() for number, result in enumerate(enqueued)}
    with queue.consumer("readers") as consumer:
        found = {Enqueued(message.partition, message.offset): message.data for message in read(consumer, count)}
    assert found == expected


def test_messages_can_be_enqueued_without_waiting(queue: Queue) -> None:
    deliveries = [queue.enqueue_nowait("a", str(number)) for number in range(100)]
    queue.flush()

    assert [delivery.result(0).offset for delivery in deliveries] == list(range(100))


def test_threads_share_a_queue(queue: Queue) -> None:
    results: list[Enqueued] = []

    def work(name: str) -> None:
        results.extend(queue.enqueue(name, str(number)) for number in range(100))

    threads = [threading.Thread(target=work, args=(f"client-{number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(set(results)) == 800


def test_a_group_goes_on_where_it_stopped_after_the_queue_was_closed(target: str) -> None:
    with ottla.open(target) as queue:
        queue.enqueue_many(("a", str(number)) for number in range(10))
        with queue.consumer("readers") as consumer:
            for message in consumer:
                if message.data == b"3":
                    break

    with ottla.open(target) as queue:
        assert queue.enqueue("a", "10") == Enqueued(murmur2(b"a", 4), 10)
        assert read_by(queue, "readers", 7) == [b"4", b"5", b"6", b"7", b"8", b"9", b"10"]
        assert read_by(queue, "others", 11)[0] == b"0"


def test_messages_are_received_one_by_one(queue: Queue) -> None:
    with queue.consumer() as consumer:
        assert consumer.receive(50) is None
        queue.enqueue("a", "x")
        message = consumer.receive(10_000)

    assert message is not None
    assert message.data == b"x"


def test_only_what_is_acknowledged_is_done(queue: Queue) -> None:
    queue.enqueue_many(("a", str(number)) for number in range(5))
    with queue.consumer("manual", auto_ack=False) as consumer:
        messages = read(consumer, 5)
        consumer.ack(messages[0], messages[1], messages[4])
        assert consumer.unacked == 2

    assert read_by(queue, "manual", 3) == [b"2", b"3", b"4"]


def test_acknowledgements_are_committed_while_the_consumer_goes_on(queue: Queue) -> None:
    queue.enqueue_many(("a", str(number)) for number in range(3))
    with queue.consumer("busy", auto_ack=False) as consumer:
        consumer.ack(*read(consumer, 3))
        consumer.commit()
        with queue.consumer("busy", auto_ack=False):
            assert consumer.lag() is not None

    with queue.consumer("busy") as consumer:
        assert consumer.receive(1_000) is None


def test_a_consumer_that_acknowledges_by_itself_need_not_be_told(queue: Queue) -> None:
    queue.enqueue("a", "x")
    with queue.consumer() as consumer:
        [message] = read(consumer, 1)
        with pytest.raises(QueueError):
            consumer.ack(message)


def test_consumers_of_a_group_split_the_partitions(queue: Queue) -> None:
    with queue.consumer("team") as one, queue.consumer("team") as two:

        def shares() -> list[int]:
            seen = [*one.poll(20), *two.poll(20)]
            assert not seen
            return sorted((len(one.lag()), len(two.lag())))

        eventually(lambda: shares() == [2, 2], timeout_s=60)
        queue.enqueue_many((f"client-{number}", str(number)) for number in range(100))
        seen: list[QueueMessage] = []
        while len(seen) < 100:
            seen += eventually(lambda: [*one.poll(20), *two.poll(20)])

    assert sorted(int(message.data) for message in seen) == list(range(100))


def test_closing_waits_for_what_was_enqueued(target: str) -> None:
    queue = ottla.open(target)
    deliveries = [queue.enqueue_nowait("a", "x") for _ in range(1_000)]

    queue.close()
    queue.close()

    assert sorted(delivery.result(0).offset for delivery in deliveries) == list(range(1_000))
    with pytest.raises(ClosedError):
        queue.enqueue("a", "late")


def test_closing_closes_the_consumers(queue: Queue) -> None:
    consumer = queue.consumer()
    queue.close()

    with pytest.raises(ClosedError):
        consumer.poll(0)


def test_the_same_program_gives_the_same_in_both_modes(tmp_path: Path, ottla_topic: OttlaTopic) -> None:
    def program(target: str) -> list[tuple[Enqueued, bytes]]:
        with ottla.open(target, topic=f"{ottla_topic}-program") as queue:
            written = queue.enqueue_many((f"client-{number % 7}", str(number)) for number in range(50))
            by_place = dict(zip(written, range(50), strict=True))
            with queue.consumer("program") as consumer:
                messages = read(consumer, 50)
        assert all(by_place[Enqueued(message.partition, message.offset)] == int(message.data) for message in messages)
        return sorted((Enqueued(message.partition, message.offset), message.data) for message in messages)

    assert program(str(tmp_path / "queue")) == program(f"kafka://{ottla_topic.bootstrap_servers}")


def test_a_queue_is_switched_while_it_runs_and_its_readers_follow(tmp_path: Path, ottla_topic: OttlaTopic) -> None:
    with ottla.open(
        tmp_path / "queue", bootstrap_servers=ottla_topic.bootstrap_servers, topic=f"{ottla_topic}-switched"
    ) as queue:
        consumer = queue.consumer("readers")
        queue.enqueue_many(("a", f"file {number}") for number in range(50))

        queue.switch(QueueMode.KAFKA)
        assert (queue.mode, queue.hosting) == (QueueMode.KAFKA, False)
        queue.enqueue_many(("a", f"kafka {number}") for number in range(50))
        queue.switch(QueueMode.KAFKA)

        seen: list[str] = []
        while len(seen) < 100:
            seen += [message.text() for message in eventually(lambda: consumer.poll(500))]
        assert seen == [f"file {number}" for number in range(50)] + [f"kafka {number}" for number in range(50)]

        queue.switch(QueueMode.FILE)
        queue.enqueue("a", "file again")
        assert [message.text() for message in eventually(lambda: consumer.poll(500))] == ["file again"]
        assert queue.hosting


def test_a_loop_follows_a_switch_to_another_directory(tmp_path: Path) -> None:
    with ottla.open(tmp_path / "one") as queue:
        queue.enqueue("a", "one")
        with queue.consumer("readers") as consumer:
            seen = []
            for message in consumer:
                seen.append(message.text())
                if seen == ["one"]:
                    queue.switch(tmp_path / "two")
                    queue.enqueue("a", "two")
                if len(seen) == 2:
                    break

    assert seen == ["one", "two"]


def test_a_mode_without_a_place_is_refused(tmp_path: Path) -> None:
    with ottla.open(tmp_path / "queue") as queue, pytest.raises(ConfigError):
        queue.switch(QueueMode.KAFKA)


def test_where_nobody_serves_opening_ends_in_time() -> None:
    with pytest.raises(QueueUnavailableError, match=r"nobody serves 127\.0\.0\.1:1"):
        ottla.open("kafka://127.0.0.1:1", patience_s=0.5)
