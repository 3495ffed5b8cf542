"""Writing to the node of this process."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import murmur2

from ottla.client import queue_local
from ottla.client.admin import Admin
from ottla.client.delivery import DeliveryFuture
from ottla.client.errors import BufferFullError, ClosedError, DeliveryError, SerializationError, UndeliveredError
from ottla.client.queue_local import LocalWriter
from ottla.embedded import EmbeddedNode
from ottla.errors import ErrorCode


@pytest.fixture
def node(tmp_path: Path) -> Iterator[EmbeddedNode]:
    with EmbeddedNode(tmp_path) as embedded:
        with Admin(bootstrap_servers=embedded.bootstrap) as admin:
            admin.create_topic("t", partitions=4)
        yield embedded


@pytest.fixture
def writer(node: EmbeddedNode) -> LocalWriter:
    return LocalWriter(node, "t", patience_s=10)


class Stall:
    """Keeps the node's thread busy until it is let go."""

    def __init__(self, node: EmbeddedNode) -> None:
        self._end, self._begun = threading.Event(), threading.Event()
        node.call_soon(self._wait)
        assert self._begun.wait(10)

    def _wait(self, _: object) -> None:
        self._begun.set()
        self._end.wait(30)

    def end(self) -> None:
        self._end.set()


def test_a_message_is_written_to_the_partition_of_its_key(writer: LocalWriter) -> None:
    for key in ("a", "b", "c"):
        written = [writer.write(key, f"{number}").result(10) for number in range(3)]

        assert {metadata.partition for metadata in written} == {murmur2(key.encode(), 4)}
        first = written[0].offset
        assert [metadata.offset for metadata in written] == [first, first + 1, first + 2]


def test_messages_that_gather_are_written_in_order(node: EmbeddedNode, writer: LocalWriter) -> None:
    stall = Stall(node)
    futures = [writer.write("a", str(number)) for number in range(queue_local.TURN_RECORDS_MAX * 3 + 1)]
    assert not any(future.done() for future in futures)

    stall.end()
    writer.flush(10)

    assert [future.result(0).offset for future in futures] == list(range(len(futures)))


def test_large_messages_are_spread_over_turns(writer: LocalWriter) -> None:
    futures = [writer.write("a", bytes(400_000)) for _ in range(10)]

    assert [future.result(10).offset for future in futures] == list(range(10))


def test_a_message_that_is_too_large_is_refused_and_the_next_one_written(writer: LocalWriter) -> None:
    refused = writer.write("a", bytes(2_000_000)).exception(10)
    written = writer.write("a", b"x").result(10)

    assert isinstance(refused, DeliveryError)
    assert refused.code in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
    assert written.offset == 0


def test_a_message_without_bytes_is_refused_at_once(writer: LocalWriter) -> None:
    with pytest.raises(SerializationError):
        writer.write("a", object())
    writer.flush(0)


def test_a_topic_that_is_gone_refuses_messages(node: EmbeddedNode) -> None:
    writer = LocalWriter(node, "nowhere", patience_s=10)

    assert isinstance(writer.write("a", b"x").exception(10), DeliveryError)


def test_when_too_much_is_waiting_writing_waits_and_then_refuses(
    node: EmbeddedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_local, "WAITING_MAX", 5)
    writer = LocalWriter(node, "t", patience_s=0.05)
    stall = Stall(node)
    futures = [writer.write("a", b"x") for _ in range(5)]

    with pytest.raises(BufferFullError):
        writer.write("a", b"x")
    with pytest.raises(UndeliveredError) as caught:
        writer.flush(0)
    assert caught.value.waiting == 5

    stall.end()
    writer.flush(10)
    assert [future.result(0).offset for future in futures] == [0, 1, 2, 3, 4]


def test_a_thread_that_waits_for_room_goes_on_when_there_is_some(
    node: EmbeddedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_local, "WAITING_MAX", 1)
    writer = LocalWriter(node, "t", patience_s=10)
    stall = Stall(node)
    writer.write("a", b"first")
    waiting: list[DeliveryFuture] = []
    thread = threading.Thread(target=lambda: waiting.append(writer.write("a", b"second")))
    thread.start()

    stall.end()
    thread.join(10)

    assert waiting[0].result(10).offset == 1


def test_closing_waits_and_then_refuses(node: EmbeddedNode, writer: LocalWriter) -> None:
    stall = Stall(node)
    future = writer.write("a", b"x")
    threading.Timer(0.05, stall.end).start()

    writer.close(10)

    assert future.done()
    with pytest.raises(ClosedError):
        writer.write("a", b"late")


def test_a_node_that_has_stopped_refuses_at_once(node: EmbeddedNode, writer: LocalWriter) -> None:
    node.stop()

    assert isinstance(writer.write("a", b"x").exception(10), DeliveryError)


def test_many_threads_write_and_nothing_is_lost(writer: LocalWriter) -> None:
    places: list[tuple[int, int]] = []

    def write(name: str) -> None:
        places.extend(writer.write(name, b"x").result(10)[1:3] for _ in range(100))

    threads = [threading.Thread(target=write, args=(f"client-{number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert len(places) == len(set(places)) == 800
