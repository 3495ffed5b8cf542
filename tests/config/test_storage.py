import pytest

from ottla.config import Durability, JournalConfig, StorageConfig
from ottla.errors import ConfigError


def test_an_acknowledged_record_is_on_the_disk_by_default() -> None:
    assert JournalConfig().durability is Durability.COMMIT


def test_an_interval_of_no_time_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"journal\.sync_interval_ms"):
        JournalConfig(sync_interval_ms=0)


def test_a_node_needs_some_descriptors() -> None:
    with pytest.raises(ConfigError, match=r"storage\.open_files_max"):
        StorageConfig(open_files_max=1)
