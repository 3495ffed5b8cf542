import pytest

from ottla.config import COMPACT, DELETE, LogConfig
from ottla.errors import ConfigError


def test_defaults_are_kafkas() -> None:
    config = LogConfig()
    assert config.segment_bytes == 1 << 30
    assert config.retention_ms == 7 * 24 * 3_600_000
    assert config.max_message_bytes == 1_048_588
    assert config.cleanup_policy == {DELETE}
    assert (config.deletes, config.compacts) == (True, False)


def test_a_log_may_be_compacted_and_deleted() -> None:
    config = LogConfig(cleanup_policy=frozenset({COMPACT, DELETE}))
    assert (config.deletes, config.compacts) == (True, True)


@pytest.mark.parametrize("policy", [frozenset(), frozenset({"shred"})])
def test_a_cleanup_policy_that_is_none_is_refused(policy: frozenset[str]) -> None:
    with pytest.raises(ConfigError, match=r"log\.cleanup_policy"):
        LogConfig(cleanup_policy=policy)


def test_compaction_lags_must_not_contradict_each_other() -> None:
    with pytest.raises(ConfigError, match=r"log\.min_compaction_lag_ms: 2 .*log\.max_compaction_lag_ms"):
        LogConfig(min_compaction_lag_ms=2, max_compaction_lag_ms=1)


def test_a_segment_smaller_than_any_batch_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"log\.segment_bytes"):
        LogConfig(segment_bytes=13)
