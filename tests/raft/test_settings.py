from __future__ import annotations

import pytest

from ottla.errors import ConfigError
from ottla.raft.settings import RaftSettings


def test_the_defaults_can_be_used() -> None:
    assert RaftSettings().election_ticks > RaftSettings().heartbeat_ticks


def test_followers_must_hear_a_heartbeat_before_they_lose_patience() -> None:
    with pytest.raises(ConfigError, match="election_ticks"):
        RaftSettings(election_ticks=5, heartbeat_ticks=5)


@pytest.mark.parametrize("name", ["message_bytes_max", "inflight_messages_max", "pending_reads_max"])
def test_a_bound_of_nothing_is_refused_by_its_name(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        RaftSettings(**{name: 0})
