"""Answers with stretches of files: every byte in its place, whoever is slow, and whatever becomes of the file."""

import asyncio
import errno
import gc
import os
import random
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.config import NetworkConfig
from ottla.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.runtime.disk import FileStretch, OsDisk, OsFile
from ottla.runtime.large_answers import TURN_BYTES, WAITING_BYTES
from tests.runtime.connection_rig import HEARTBEAT, Client, Later, Rig, api, beat, rig, run, until

MIB = 1 << 20
SIZE = 8 * MIB
DATA = random.Random(7).randbytes(SIZE)
HEADER = DATA[:61]
VERSION = 12
SOON_SENT = 100_000
"""A stretch that any socket takes at once."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[OsDisk]:
    disk = OsDisk(str(tmp_path))
    yield disk
    gc.collect()  # a traceback that a test has kept holds the stretches in its frames
    disk.close()
    assert disk.open_files == 0


def filled(disk: OsDisk, name: str = "segment", data: bytes = DATA) -> OsFile:
    file = disk.open(name, create=True)
    file.pwritev([data], 0)
    return file


def stretch_of(file: OsFile, size: int = SIZE, position: int = 0) -> FileStretch:
    found = file.stretch(size, position, HEADER)
    assert isinstance(found, FileStretch)
    return found


def sent_whole(stretch: FileStretch) -> bytes:
    """What arrives if it is sent as fast as the other end takes it."""
    sender, receiver = socket.socketpair()
    arrived = bytearray()
    with sender, receiver:
        sender.setblocking(False)
        while stretch.size:
            while stretch.size and stretch.send(sender.fileno(), SIZE):
                pass
            arrived += receiver.recv(SIZE)
        sender.close()
        while more := receiver.recv(SIZE):
            arrived += more
    return bytes(arrived)


# A stretch by itself


def test_what_is_sent_are_the_bytes_of_the_file_wherever_it_begins(disk: OsDisk) -> None:
    file = filled(disk)
    for position, size in ((0, SIZE), (1, MIB), (4_095, 65_537), (SIZE - 1, 1)):
        stretch = stretch_of(file, size, position)
        assert len(stretch) == size
        assert sent_whole(stretch) == DATA[position : position + size]


def test_a_full_socket_takes_nothing_and_what_is_read_then_is_not_sent_again(disk: OsDisk) -> None:
    stretch = stretch_of(filled(disk))
    sender, receiver = socket.socketpair()
    with sender, receiver:
        sender.setblocking(False)
        while stretch.send(sender.fileno(), SIZE):
            pass
        sent = SIZE - stretch.size
        assert 0 < sent < SIZE
        assert stretch.read(10) == DATA[sent : sent + 10]
        assert sent_whole(stretch) == DATA[sent + 10 :]


def test_a_stretch_is_of_the_file_that_was_there_when_another_took_its_name(disk: OsDisk) -> None:
    file = filled(disk)
    stretch = stretch_of(file)
    filled(disk, "other", bytes(SIZE)).close()
    file.close()
    disk.rename("other", "segment")

    assert file.pread(4, 0) == bytes(4)
    assert sent_whole(stretch) == DATA


def test_a_file_that_was_removed_gives_its_room_back_when_the_last_stretch_is_gone(disk: OsDisk) -> None:
    file = filled(disk)
    first, second = stretch_of(file), stretch_of(file)
    disk.remove("segment")
    file.close()
    del first
    disk.open("else", create=True).close()
    assert disk.open_files == 1
    assert sent_whole(second) == DATA
    del second
    disk.open("else").close()
    assert disk.open_files == 0


def test_descriptors_of_stretches_are_not_taken_away(tmp_path: Path) -> None:
    disk = OsDisk(str(tmp_path), open_files_max=16)
    stretches = [stretch_of(filled(disk, f"file-{n}", DATA[n:]), MIB) for n in range(40)]
    for n, stretch in enumerate(stretches):
        assert sent_whole(stretch) == DATA[n : n + MIB]
    stretches.clear()
    del stretch
    disk.close()
    assert disk.open_files == 0


def test_a_file_that_was_cut_cannot_be_sent_and_the_read_says_so(disk: OsDisk) -> None:
    file = filled(disk)
    stretch = stretch_of(file)
    os.truncate(f"{disk.root}/segment", 0)
    sender, receiver = socket.socketpair()
    with sender, receiver:
        assert not stretch.send(sender.fileno(), SIZE)
    with pytest.raises(OSError, match="ends before it should"):
        stretch.read(10)
    assert file.stretch(10, 0, HEADER) == b""


# In answers


def answer_of(*stretches: Any) -> FetchResponse:
    data = [PartitionData(partition_index=n, high_watermark=n, records=records) for n, records in enumerate(stretches)]
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=data)])


def fetching(answer: Any) -> Any:
    return api(FetchRequest, lambda request, context: answer(request.max_wait_ms))


def ask(client: Client, number: int) -> None:
    client.send(FetchRequest(max_wait_ms=number, topics=[]), VERSION, correlation_id=number)


async def records_of(client: Client) -> tuple[int, list[bytes]]:
    correlation_id, answer = await client.answer(FetchRequest, VERSION)
    return correlation_id, [bytes(data.records) for data in answer.responses[0].partitions]


@pytest.mark.parametrize("size", [SOON_SENT, SIZE], ids=["at once", "as the client takes it"])
def test_an_answer_is_the_same_as_one_that_was_read(disk: OsDisk, size: int) -> None:
    file = filled(disk)

    def stretches(number: int) -> FetchResponse:
        return answer_of(stretch_of(file, size), b"", b"in between", stretch_of(file, size // 2, size // 2))

    async def scenario() -> None:
        async with rig(fetching(stretches)) as served:
            client = await served.connect()
            for number in range(3):
                ask(client, number)
            for number in range(3):
                assert await records_of(client) == (
                    number,
                    [DATA[:size], b"", b"in between", DATA[size // 2 : size // 2 * 2]],
                )

    run(scenario)


def test_a_slow_client_costs_no_memory_and_gets_everything_in_order(disk: OsDisk) -> None:
    file = filled(disk)
    asked = 0

    def large(number: int) -> FetchResponse:
        nonlocal asked
        asked += 1
        return answer_of(stretch_of(file), stretch_of(file))

    async def scenario() -> None:
        async with rig(fetching(large), HEARTBEAT) as served:
            client = await served.connect()
            for number in range(8):
                ask(client, number)
                client.send(beat(number), 4, correlation_id=100 + number)
            await until(lambda: served.server.unsent_bytes > 0)
            assert served.server.unsent_bytes <= WAITING_BYTES
            assert asked == 1
            for number in range(8):
                assert await records_of(client) == (number, [DATA, DATA])
                correlation_id, beaten = await client.answer(HeartbeatRequest, 4)
                assert (correlation_id, beaten.error_code) == (100 + number, number)
            assert served.server.unsent_bytes == 0

    run(scenario)


def test_answers_that_become_ready_while_a_large_one_leaves_come_after_it(disk: OsDisk) -> None:
    file = filled(disk)
    waiting = Later()

    async def scenario() -> None:
        async with rig(fetching(waiting)) as served:
            client = await served.connect()
            for number in range(4):
                ask(client, number)
            await until(lambda: len(waiting) == 4)
            waiting[0].complete(answer_of(stretch_of(file)))
            assert served.server.unsent_bytes > 0
            waiting[1].complete(answer_of(b"small"))
            waiting[2].complete(answer_of(stretch_of(file, MIB, 5)))
            waiting[3].complete(answer_of(DATA[:MIB]))
            assert await records_of(client) == (0, [DATA])
            assert await records_of(client) == (1, [b"small"])
            assert await records_of(client) == (2, [DATA[5 : MIB + 5]])
            assert await records_of(client) == (3, [DATA[:MIB]])

    run(scenario)


def test_a_large_answer_waits_for_what_the_transport_still_has(disk: OsDisk) -> None:
    file = filled(disk)
    waiting = Later()

    async def scenario() -> None:
        async with rig(fetching(waiting), limits=NetworkConfig(send_buffer_bytes_max=64 * MIB)) as served:
            client = await served.connect()
            ask(client, 0)
            ask(client, 1)
            await until(lambda: len(waiting) == 2)
            waiting[0].complete(answer_of(DATA))
            (connection,) = served.server.connections
            assert connection._transport.get_write_buffer_size() > 0
            assert not connection.held
            waiting[1].complete(answer_of(stretch_of(file)))
            assert connection.held
            assert await records_of(client) == (0, [DATA])
            assert await records_of(client) == (1, [DATA])
            await until(lambda: not connection.held)
            assert connection._transport.get_write_buffer_limits()[1] == 64 * MIB

    run(scenario)


def test_others_are_served_while_a_reader_takes_all_that_is_sent(disk: OsDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    """As fast as it comes: the socket is never full."""
    monkeypatch.setattr(os, "sendfile", endless := Endless())
    file = filled(disk)
    begun_at: list[int] = []

    def large(_: int) -> FetchResponse:
        begun_at.append(endless.sent_bytes)
        return answer_of(stretch_of(file), stretch_of(file))

    async def scenario() -> None:
        async with rig(fetching(large), HEARTBEAT) as served:
            other = await served.connect()
            reader = await served.connect()
            await until(lambda: len(served.server.connections) == 2)
            other.send(beat(5), 4)
            for number in range(3):
                ask(reader, number)
            assert (await other.answer(HeartbeatRequest, 4))[1].error_code == 5
            await until(lambda: endless.sent_bytes == 6 * SIZE)
            assert begun_at == [0, 2 * SIZE, 4 * SIZE]
            (connection,) = [one for one in served.server.connections if one.bytes_out > SIZE]
            await until(lambda: connection._large is None)
            assert not connection.held

    run(scenario)
    assert max(endless.sent_at_once) <= TURN_BYTES
    assert len(endless.sent_at_once) == 6 * SIZE // TURN_BYTES


class Endless:
    """A socket that takes everything."""

    def __init__(self) -> None:
        self.sent_at_once: list[int] = []

    @property
    def sent_bytes(self) -> int:
        return sum(self.sent_at_once)

    def __call__(self, to: int, descriptor: int, position: int, size: int) -> int:
        self.sent_at_once.append(size)
        return size


async def begun(served: Rig, file: OsFile) -> Client:
    """A client that has asked for all of the file and takes nothing of it."""
    client = await served.connect()
    ask(client, 0)
    await until(lambda: served.server.unsent_bytes > 0)
    assert file.is_pinned()
    return client


def test_a_client_that_leaves_lets_go_of_the_file(disk: OsDisk) -> None:
    file = filled(disk)

    async def scenario() -> None:
        async with rig(fetching(lambda _: answer_of(stretch_of(file)))) as served:
            client = await begun(served, file)
            client.writer.transport.abort()
            await until(lambda: not file.is_pinned())

    run(scenario)


def test_hanging_up_lets_go_of_the_file(disk: OsDisk) -> None:
    file = filled(disk)

    async def scenario() -> None:
        async with rig(fetching(lambda _: answer_of(stretch_of(file)))) as served:
            await begun(served, file)
            (connection,) = served.server.connections
            connection.hang_up()
            assert not file.is_pinned()

    run(scenario)


def test_a_file_that_ends_too_early_closes_that_connection_and_no_other(
    disk: OsDisk, caplog: pytest.LogCaptureFixture
) -> None:
    file = filled(disk)

    async def scenario() -> None:
        async with rig(fetching(lambda _: answer_of(stretch_of(file))), HEARTBEAT) as served:
            other = await served.connect()
            client = await begun(served, file)
            os.truncate(f"{disk.root}/segment", 4_096)
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await client.frame()
            other.send(beat(3), 4)
            assert (await other.answer(HeartbeatRequest, 4))[1].error_code == 3
            assert not file.is_pinned()

    run(scenario)
    assert "the file ends before it should" in caplog.text


def test_where_the_system_cannot_send_from_a_file_it_is_read(
    disk: OsDisk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = filled(disk)

    def refuse(*_: Any) -> int:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(os, "sendfile", refuse)

    async def scenario() -> None:
        async with rig(fetching(lambda _: answer_of(file.stretch(SIZE, 0, HEADER)))) as served:
            client = await served.connect()
            for number in range(2):
                ask(client, number)
                assert await records_of(client) == (number, [DATA])

    run(scenario)
    assert caplog.text.count("is read from now on") == 1
    assert file.stretch(10, 0, HEADER) == DATA[:10]
