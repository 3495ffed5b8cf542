from __future__ import annotations

import pytest

from ottla.errors import InvariantError
from ottla.raft.progress import Pace, Progress
from ottla.raft.settings import RaftSettings

SETTINGS = RaftSettings(inflight_messages_max=2, inflight_bytes_max=100, snapshot_ticks=3, election_ticks=10)


def pace_of(progress: Progress) -> Pace:
    return progress.pace


def probing(next_index: int = 10) -> Progress:
    return Progress(SETTINGS, next_index=next_index)


def replicating(match: int = 9) -> Progress:
    progress = probing(match + 1)
    progress.acknowledged(match, base_index=0)
    return progress


def test_a_probe_is_one_message_until_there_is_an_answer() -> None:
    progress = probing()
    assert progress.may_send_entries
    progress.sent(12, 50, commit=5)
    assert not progress.may_send_entries
    assert progress.next == 10, "what was sent may have to be sent again"
    progress.acknowledged(12, base_index=0)
    assert pace_of(progress) is Pace.REPLICATE
    assert (progress.match, progress.next) == (12, 13)


def test_a_rejected_probe_goes_back_to_where_the_logs_may_agree() -> None:
    progress = probing()
    progress.sent(9, 0, commit=0)
    progress.rejected(9, agreeable_index=4)
    assert progress.next == 5
    assert progress.must_ask


def test_a_rejected_probe_goes_back_at_least_one_entry() -> None:
    progress = probing()
    progress.sent(9, 0, commit=0)
    progress.rejected(9, agreeable_index=30)
    assert progress.next == 9


def test_a_late_rejection_changes_nothing() -> None:
    progress = probing()
    progress.rejected(5, agreeable_index=1)
    assert progress.next == 10
    progress = replicating(match=9)
    progress.rejected(9, agreeable_index=1)
    assert pace_of(progress) is Pace.REPLICATE


def test_a_rejection_while_replicating_means_that_something_got_lost() -> None:
    progress = replicating(match=9)
    progress.sent(12, 10, commit=0)
    progress.rejected(12, agreeable_index=9)
    assert pace_of(progress) is Pace.PROBE
    assert progress.next == 10
    assert progress.inflight_bytes == 0


def test_messages_follow_each_other_until_their_number_or_their_bytes_are_too_many() -> None:
    progress = replicating(match=9)
    progress.sent(10, 10, commit=0)
    assert progress.may_send_entries
    progress.sent(11, 10, commit=0)
    assert not progress.may_send_entries
    progress.acknowledged(10, base_index=0)
    assert progress.may_send_entries
    progress.sent(12, 90, commit=0)
    progress.acknowledged(11, base_index=0)
    assert progress.inflight_bytes == 90
    progress.sent(13, 10, commit=0)
    assert not progress.may_send_entries


def test_what_was_sent_before_a_heartbeat_and_not_acknowledged_with_it_is_asked_for() -> None:
    progress = replicating(match=9)
    progress.sent(10, 10, commit=0)
    progress.sent_heartbeat()
    progress.sent(11, 10, commit=0)
    progress.replied_to_heartbeat(1)
    assert progress.must_ask
    progress.acknowledged(10, base_index=0)
    progress.sent(11, 0, commit=0)
    progress.replied_to_heartbeat(1)
    assert not progress.must_ask, "11 was sent after the heartbeat"


def test_a_probe_that_got_lost_is_sent_again_when_the_node_is_heard() -> None:
    progress = probing()
    progress.sent(9, 0, commit=0)
    progress.replied_to_heartbeat(0)
    assert progress.must_ask


def test_nothing_is_sent_to_a_node_that_waits_for_a_snapshot() -> None:
    progress = probing()
    progress.sent_snapshot()
    assert not progress.may_send_entries
    with pytest.raises(InvariantError):
        progress.sent(10, 1, commit=0)


def test_a_node_that_has_its_snapshot_is_sent_what_follows() -> None:
    progress = probing()
    progress.sent_snapshot()
    progress.acknowledged(6, base_index=8)
    assert pace_of(progress) is Pace.SNAPSHOT, "what it needs is still not in the log"
    progress.acknowledged(8, base_index=8)
    assert pace_of(progress) is Pace.REPLICATE
    assert progress.next == 9


def test_a_snapshot_that_never_arrives_is_offered_again() -> None:
    progress = probing()
    progress.sent_snapshot()
    progress.tick(5)
    progress.tick(5)
    assert pace_of(progress) is Pace.SNAPSHOT
    progress.tick(5)
    assert pace_of(progress) is Pace.PROBE
    assert progress.next == 1


def test_it_is_known_for_how_long_a_node_has_lacked_something() -> None:
    progress = probing()
    progress.tick(5)
    assert progress.ticks_since_caught_up is None
    progress.acknowledged(5, base_index=0)
    progress.tick(5)
    assert progress.ticks_since_caught_up == 0
    progress.tick(6)
    progress.tick(6)
    assert progress.ticks_since_caught_up == 2


def test_acknowledgements_may_come_in_any_order() -> None:
    progress = replicating(match=9)
    progress.sent(10, 10, commit=0)
    progress.sent(11, 10, commit=0)
    progress.acknowledged(11, base_index=0)
    progress.acknowledged(10, base_index=0)
    assert (progress.match, progress.next, progress.inflight_bytes) == (11, 12, 0)
