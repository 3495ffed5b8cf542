"""Bugs that transactions might have, to be planted into the nodes of a simulated cluster."""

from __future__ import annotations

import pytest

from ottla.errors import ErrorCode
from ottla.groups.records import TransactionEnded
from ottla.groups.shard import GroupShard
from ottla.handlers import produce
from ottla.runtime.marker_sending import MarkerSender, Sending
from ottla.storage.log_state import LogState
from ottla.transactions import starting
from ottla.transactions.transaction import Producer
from ottla.types import TopicPartition


def lose_markers_when_leaders_move(patch: pytest.MonkeyPatch) -> None:
    """A marker that a leader could not take is taken for written."""
    note = MarkerSender.note

    def forget(self: MarkerSender, sending: Sending, at: TopicPartition, _code: ErrorCode) -> None:
        note(self, sending, at, ErrorCode.NONE)

    patch.setattr(MarkerSender, "note", forget)


def let_readers_see_open_transactions(patch: pytest.MonkeyPatch) -> None:
    """The last stable offset is the high watermark, whatever is open below it."""
    patch.setattr(LogState, "stable_offset", lambda _self, high_watermark: high_watermark)


def keep_the_epoch(patch: pytest.MonkeyPatch) -> None:
    """Who starts anew gets the epoch that the one before it has."""

    def same(client: Producer, _fresh_id: int | None) -> Producer:
        return client

    patch.setattr(starting, "next_client", same)


def let_offsets_of_aborted_transactions_count(patch: pytest.MonkeyPatch) -> None:
    """A group goes on behind what was read, whether or not what became of it is there."""
    replay = GroupShard._replay_end
    patch.setattr(GroupShard, "_replay_end", lambda self, ended: replay(self, ended._replace(commits=True)))


def lose_offsets_of_transactions(patch: pytest.MonkeyPatch) -> None:
    """What became of it is there, and the group does not go on."""

    def forget(self: GroupShard, ended: TransactionEnded) -> None:
        self._pending.take(ended.producer_id, commits=False)

    patch.setattr(GroupShard, "_replay_end", forget)


def ask_no_coordinator(patch: pytest.MonkeyPatch) -> None:
    """Records of transactions are appended like any others."""
    patch.setattr(produce, "produce_in_transaction", lambda request, ctx, serve, _refuse: serve(request, ctx))
    patch.setattr("ottla.storage.producer_state.ProducerState.require_transaction", lambda *_: None)
