"""When a commit runs, where, and who is answered by it. The disk is one in memory that can be slow."""

import asyncio
import errno
import threading
import time
from typing import Any

import pytest

from ottla.config import Durability, LogConfig
from ottla.errors import BrokerError, ErrorCode
from ottla.metadata.image import PartitionImage
from ottla.replication.partition import Partition
from ottla.runtime.commit_timing import SyncPace
from ottla.runtime.committer import PUTS_OFF_MAX
from ottla.services import Deferred
from ottla.storage.pending import PendingWrite
from ottla.testing.disk import Fault, Operation
from ottla.types import TopicPartition
from tests.runtime.commit_rig import INLINE_US, NEVER_INLINE_US, Rig, run


def test_nothing_is_visible_or_answered_before_the_commit() -> None:
    async def scenario(rig: Rig) -> None:
        rig.append()
        answer = rig.committer.after_commit("stored")
        assert not answer.done
        assert rig.partition.high_watermark == 0
        await rig.committer.drain()
        assert answer.value == "stored"
        assert rig.partition.high_watermark == 1

    run(scenario)


def test_an_answer_that_stands_on_nothing_new_is_given_at_once() -> None:
    async def scenario(rig: Rig) -> None:
        assert rig.committer.after_commit("at once").value == "at once"

    run(scenario)


def test_appends_of_one_turn_share_a_commit() -> None:
    async def scenario(rig: Rig) -> None:
        commits: list[int] = []
        rig.committer.on_commit = lambda: commits.append(rig.partition.high_watermark)
        for _ in range(50):
            rig.append()
        await rig.committer.drain()
        assert commits == [50]

    run(scenario)


def test_while_a_thread_commits_the_loop_goes_on_and_the_next_commit_gathers() -> None:
    async def scenario(rig: Rig) -> None:
        let_go = threading.Event()

        def slow(operation: Operation, path: str) -> None:
            if operation is Operation.SYNC and "journal" in path:
                assert let_go.wait(10)

        rig.disk.before_operation = slow
        commits: list[int] = []
        rig.committer.on_commit = lambda: commits.append(rig.partition.high_watermark)
        rig.append()
        first = rig.committer.after_commit("first")
        await asyncio.sleep(0)
        for _ in range(10):
            rig.append()
        second = rig.committer.after_commit("second")
        await asyncio.sleep(0.01)
        assert not first.done
        assert not second.done
        let_go.set()
        await rig.committer.drain()
        assert (first.value, second.value) == ("first", "second")
        assert commits == [1, 11]

    run(scenario, NEVER_INLINE_US)


def test_a_failed_commit_is_told_and_nothing_is_taken_after_a_failed_sync() -> None:
    async def scenario(rig: Rig) -> None:
        rig.append(b"kept")
        await rig.committer.drain()
        rig.disk.faults.append(Fault(operation=Operation.SYNC, path_contains="journal", times=1))
        rig.append(b"lost")
        plain: Deferred[str] = rig.committer.after_commit("plain")
        shaped: Deferred[str] = rig.committer.after_commit(
            "shaped", lambda answer, error: f"{answer}: {error.code.name}"
        )
        await rig.committer.drain()
        assert plain.error is not None
        assert plain.error.code == ErrorCode.KAFKA_STORAGE_ERROR
        assert shaped.value == "shaped: KAFKA_STORAGE_ERROR"
        assert rig.partition.high_watermark == 1
        with pytest.raises(BrokerError) as refused:
            rig.append(b"refused")
        assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR

    run(scenario)


def test_a_commit_that_fails_by_a_bug_is_the_last_one_and_holds_nobody() -> None:
    async def scenario(rig: Rig) -> None:
        def surprise(operation: Operation, path: str) -> None:
            raise ZeroDivisionError

        rig.disk.before_operation = surprise
        rig.append()
        answer = rig.committer.after_commit("never")
        await rig.committer.drain()
        assert answer.error is not None
        assert rig.committer.failed is not None

    run(scenario)


def test_it_is_syncs_that_make_a_commit_slow_not_the_writes_before_them() -> None:
    async def scenario(rig: Rig) -> None:
        syncing: set[int] = set()

        def slow_writes(operation: Operation, path: str) -> None:
            if operation is Operation.SYNC:
                syncing.add(threading.get_ident())
            elif operation is Operation.WRITE and "journal" not in path:
                time.sleep(0.01)

        rig.disk.before_operation = slow_writes
        for _ in range(SyncPace.WINDOW // SyncPace.OUTLIER + 5):
            rig.append()
            await rig.committer.drain()
        assert syncing == {threading.get_ident()}

    run(scenario, inline_us_max=1_000)


class Client:
    """Who is sent replies. Notes what was sent, and what readers could see then."""

    def __init__(self, rig: Rig, seen: list[Any]) -> None:
        self._rig = rig
        self._seen = seen

    def complete(self, value: bytes) -> None:
        self._seen.append((value, self._rig.partition.high_watermark))

    def complete_several(self, values: list[bytes]) -> None:
        self._seen.append((tuple(values), self._rig.partition.high_watermark))

    def waits(self, reply: bytes) -> None:
        """For what was just appended."""
        self._rig.committer.replies.append((self, reply, lambda reply, error: reply + error.code.name.encode()))


@pytest.mark.parametrize("inline_us_max", [INLINE_US, NEVER_INLINE_US])
def test_a_reply_leaves_as_soon_as_it_is_durable_then_readers_are_told_then_the_others(inline_us_max: int) -> None:
    async def scenario(rig: Rig) -> None:
        rig.append()
        await rig.committer.drain()
        seen: list[Any] = []
        rig.disk.before_operation = lambda operation, path: seen.append(operation)
        rig.committer.on_durable = lambda: seen.append(("durable", rig.partition.high_watermark))
        rig.append()
        rig.committer.after_commit("told").on_done(lambda done: seen.append(done.value))
        Client(rig, seen).waits(b"reply")
        await rig.committer.drain()
        assert seen == [Operation.WRITE, Operation.SYNC, (b"reply", 1), ("durable", 2), "told"]

    run(scenario, inline_us_max)


class Reader:
    """Who waits for more of a partition."""

    def __init__(self, rig: Rig, seen: list[Any]) -> None:
        self._seen = seen
        rig.partition.waiters[self] = None

    def more(self, partition: Any, size_bytes: int) -> None:
        self._seen.append(("read", partition.high_watermark))

    def gone(self, partition: Any) -> None:
        raise AssertionError("nobody has taken the partition away")


async def seen_by_a_reader_and_a_lone_writer(rig: Rig) -> list[Any]:
    """One record, for which both of them wait."""
    seen: list[Any] = []
    Reader(rig, seen)
    rig.append()
    Client(rig, seen).waits(b"reply")
    await rig.committer.drain()
    return seen


@pytest.mark.parametrize("inline_us_max", [INLINE_US, NEVER_INLINE_US])
def test_a_reader_who_waits_for_the_one_record_of_a_commit_has_it_before_its_writer_is_answered(
    inline_us_max: int,
) -> None:
    async def scenario(rig: Rig) -> None:
        assert await seen_by_a_reader_and_a_lone_writer(rig) == [("read", 1), (b"reply", 1)]

    run(scenario, inline_us_max)


def test_several_writers_are_answered_before_the_reader_who_waits_for_them() -> None:
    async def scenario(rig: Rig) -> None:
        seen: list[Any] = []
        Reader(rig, seen)
        for reply in (b"1", b"2"):
            rig.append()
            Client(rig, seen).waits(reply)
        await rig.committer.drain()
        assert seen == [(b"1", 0), (b"2", 0), ("read", 2)]

    run(scenario)


def test_where_nothing_is_synced_the_writer_is_answered_first() -> None:
    async def scenario(rig: Rig) -> None:
        assert await seen_by_a_reader_and_a_lone_writer(rig) == [(b"reply", 0), ("read", 1)]

    run(scenario, durability=Durability.OS)


def test_a_writer_does_not_wait_for_readers_who_wait_for_followers() -> None:
    async def scenario(rig: Rig) -> None:
        seen: list[Any] = []
        with_a_follower(rig)
        Reader(rig, seen)
        rig.committer.on_durable = lambda: seen.append("durable")
        rig.append()
        Client(rig, seen).waits(b"reply")
        await rig.committer.drain()
        assert seen == [(b"reply", 0), "durable"]

    run(scenario)


def test_a_client_with_several_requests_on_the_way_is_sent_their_replies_at_once() -> None:
    async def scenario(rig: Rig) -> None:
        seen: list[Any] = []
        one, other = Client(rig, seen), Client(rig, seen)
        for reply in (b"1", b"2", b"3"):
            rig.append()
            one.waits(reply)
        await rig.committer.drain()
        assert seen == [((b"1", b"2", b"3"), 0)]
        seen.clear()
        for client, reply in ((one, b"4"), (other, b"5"), (one, b"6")):
            rig.append()
            client.waits(reply)
        await rig.committer.drain()
        assert seen == [(b"4", 3), (b"5", 3), (b"6", 3)]

    run(scenario)


def test_when_a_commit_fails_replies_say_so() -> None:
    async def scenario(rig: Rig) -> None:
        seen: list[Any] = []
        rig.disk.faults.append(Fault(operation=Operation.SYNC, path_contains="journal", times=1))
        for reply in (b"1: ", b"2: "):
            rig.append()
            Client(rig, seen).waits(reply)
        await rig.committer.drain()
        assert seen == [(b"1: KAFKA_STORAGE_ERROR", 0), (b"2: KAFKA_STORAGE_ERROR", 0)]

    run(scenario)


class MuchHeld:
    """Two batches share each commit, after which a log holds more than it should."""

    def __init__(self, rig: Rig) -> None:
        self.written: list[str] = []
        """Where the disk was written to."""
        self._rig = rig

    async def begin(self) -> None:
        """The segment's file is there: a first write is not held."""
        self._rig.logs.group_commit.held.log_bytes_max = 0
        await self.commit()
        self._rig.disk.before_operation = self._note

    def _note(self, operation: Operation, path: str) -> None:
        if operation is Operation.WRITE:
            self.written.append("journal" if "journal" in path else "segment")

    async def commit(self, then: list[int] | None = None) -> None:
        """Two batches, and as many as `then` tells as soon as each commit has ended, before anything else is done."""
        numbers = iter(then or ())

        def more() -> None:
            for _ in range(next(numbers, 0)):
                self._rig.append()

        self._rig.committer.on_commit = more
        self._rig.append()
        self._rig.append()
        await self._rig.committer.drain()
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("then", "written"),
    [
        pytest.param([], ["journal", "segment"], id="when nobody waits"),
        pytest.param([1], ["journal", "segment", "journal", "segment"], id="while a commit waits for another batch"),
        pytest.param([2], ["journal", "journal", "segment"], id="after a commit that waits for none"),
        pytest.param(
            [2] * (PUTS_OFF_MAX + 1),
            ["journal"] * (PUTS_OFF_MAX + 1) + ["segment", "journal", "segment"],
            id="before the next commit, if it was put off often enough",
        ),
    ],
)
def test_what_a_log_holds_is_written(then: list[int], written: list[str]) -> None:
    async def scenario(rig: Rig) -> None:
        held = MuchHeld(rig)
        await held.begin()
        await held.commit(then)
        assert held.written == written

    run(scenario)


def test_with_a_bound_of_0_a_thread_does_every_commit() -> None:
    assert not SyncPace(slow_us=0).is_quick


def with_a_follower(rig: Rig) -> None:
    image = PartitionImage(leader=1, leader_epoch=0, replicas=(1, 2), isr=(1, 2), partition_epoch=0)
    log = rig.partition.log
    rig.partition = Partition(
        topic="t", topic_id=b"t" * 16, index=0, leader_epoch=0, log=log, node_id=1, image=image, now_ms=0
    )


def test_followers_are_shown_a_share_when_it_is_written_and_not_synced() -> None:
    async def scenario(rig: Rig) -> None:
        with_a_follower(rig)
        rig.append(b"the first write of a segment makes its file")
        await rig.committer.drain()
        shown: list[tuple[Any, ...]] = []
        counters = rig.disk.counters

        def show(partition: Partition, share: PendingWrite) -> None:
            batch = b"".join(share.buffers)
            shown.append((partition, share.base_offset, batch, partition.log.durable_offset, counters.syncs))

        rig.committer.on_written = show
        syncs, writes = counters.syncs, counters.writes
        rig.append(b"shown")
        await rig.committer.drain()
        (found,) = shown
        assert found[:2] == (rig.partition, 1)
        assert b"shown" in found[2]
        assert found[3:] == (1, syncs)
        assert (counters.writes, counters.syncs) == (writes + 1, syncs + 1)
        assert rig.partition.log.durable_offset == 2

    run(scenario)


@pytest.mark.parametrize("why", ["alone", "not synced", "two partitions", "in a thread"])
def test_what_is_not_shown(why: str) -> None:
    async def scenario(rig: Rig) -> None:
        if why != "alone":
            with_a_follower(rig)
        rig.append()
        await rig.committer.drain()
        shown: list[Any] = []
        rig.committer.on_written = lambda *_: shown.append(1)
        if why == "two partitions":
            log = rig.logs.get(TopicPartition("t", 1), b"t" * 16, LogConfig())
            first, rig.partition = (
                rig.partition,
                Partition(topic="t", topic_id=b"t" * 16, index=1, leader_epoch=0, log=log),
            )
            rig.append()
            rig.partition = first
        rig.append()
        await rig.committer.drain()
        assert shown == []

    durability = Durability.OS if why == "not synced" else Durability.COMMIT
    run(scenario, inline_us_max=0 if why == "in a thread" else INLINE_US, durability=durability)


def test_a_share_that_could_not_be_shown_is_committed_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(rig: Rig) -> None:
        with_a_follower(rig)
        rig.append()
        await rig.committer.drain()

        def fail(*_: object) -> None:
            raise OSError(errno.ENOSPC, "no room in the network")

        rig.committer.on_written = fail
        rig.append()
        await rig.committer.drain()
        assert rig.partition.log.durable_offset == 2
        assert rig.committer.failed is None

    run(scenario)
    assert "no room in the network" in caplog.text


def test_after_a_share_was_shown_and_not_synced_nothing_can_take_its_place() -> None:
    async def scenario(rig: Rig) -> None:
        with_a_follower(rig)
        rig.append()
        await rig.committer.drain()
        shown: list[Any] = []
        rig.committer.on_written = lambda *_: shown.append(1)
        rig.disk.faults.append(Fault(operation=Operation.SYNC))
        rig.append()
        await rig.committer.drain()
        assert shown == [1]
        rig.disk.faults.clear()
        with pytest.raises(BrokerError):
            rig.append()

    run(scenario)
