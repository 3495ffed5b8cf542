"""Bugs that a broker might have, to be planted into the one that ships: the simulator must find each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ottla.replication.partition import Partition
from ottla.runtime import shards
from ottla.runtime.committer import Committer
from ottla.runtime.fetcher import Fetch
from ottla.services import Deferred
from ottla.storage import log_manager, recovery
from ottla.storage.group_commit import Commit, GroupCommit
from ottla.storage.producer_state import ProducerState

Bug = Callable[[pytest.MonkeyPatch], None]


def acknowledge_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    """Produce is answered when the records are appended, not when they are durable."""
    wait = Committer.after_commit

    def after_commit(self: Committer, answer: Any, on_failure: Any = None) -> Deferred[Any]:
        if on_failure is None:
            return wait(self, answer)
        at_once: Deferred[Any] = Deferred()
        at_once.complete(answer)
        return at_once

    patch.setattr(Committer, "after_commit", after_commit)


class _WrittenEarly:
    """A log's share of a commit that is in its segment already, where readers find it."""

    def __init__(self, write: Any) -> None:
        self._write = write
        write.run()
        write.finish()

    def run(self) -> None:
        """It has been."""

    def finish(self) -> None:
        """It has been."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._write, name)


def serve_beyond_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """Readers are given what is written, before it is durable."""
    begin, read_one = GroupCommit.begin, Fetch._read_one

    def begin_and_write(self: GroupCommit, **_holding: bool) -> Commit | None:
        commit = begin(self)
        if commit is not None and commit.error is None:
            shares: Any = [_WrittenEarly(share) for share in commit.shares]
            commit.shares = commit.writes = shares
        return commit

    def read_all(self: Fetch, wanted: Any, partition: Partition) -> Any:
        durable = partition.high_watermark
        partition.high_watermark = max(durable, partition.log.written_offset)
        try:
            return read_one(self, wanted, partition)
        finally:
            partition.high_watermark = durable

    patch.setattr(GroupCommit, "begin", begin_and_write)
    patch.setattr(Fetch, "_read_one", read_all)


def forget_producers(patch: pytest.MonkeyPatch) -> None:
    """What producers have sent is not learnt from the log again after a restart."""
    patch.setattr(ProducerState, "replay", lambda *_args, **_kwargs: None)
    patch.setattr(ProducerState, "from_snapshot", lambda _entries: ProducerState())


def answer_groups_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    """A coordinator answers when it has decided, not when the decision is durable."""
    patch.setattr(shards.ShardRuntime, "_answer", lambda _self, replies: shards._send(replies))


def trust_the_page_cache(patch: pytest.MonkeyPatch) -> None:
    """Recovery leaves alone what the segments seem to hold, even if a sync of it has failed."""
    for module in (recovery, log_manager):
        patch.setattr(module, "write_again", lambda *_args: None)
