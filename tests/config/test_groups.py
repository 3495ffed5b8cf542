import pytest

from ottla.config import GroupConfig
from ottla.errors import ConfigError


def test_session_limits_are_kafkas() -> None:
    config = GroupConfig()
    assert (config.group_min_session_timeout_ms, config.group_max_session_timeout_ms) == (6_000, 1_800_000)
    assert config.offsets_retention_minutes == 10_080


def test_the_shortest_session_can_not_be_longer_than_the_longest() -> None:
    with pytest.raises(ConfigError, match=r"groups\.group_min_session_timeout_ms"):
        GroupConfig(group_min_session_timeout_ms=2, group_max_session_timeout_ms=1)
