import pytest

from ottla.config.names import LEGACY, normalised, resolve, settings, targets
from ottla.errors import ConfigError


def test_no_two_settings_share_a_name() -> None:
    assert len({normalised(path) for path in settings()}) == len(settings())


def test_no_alias_takes_the_name_of_another_setting() -> None:
    for setting in settings().values():
        for name in setting.kafka_names:
            assert targets()[normalised(name)].path == setting.path


def test_every_alias_leads_to_a_setting() -> None:
    assert {target.path for target in LEGACY.values()} <= settings().keys()


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("journal.file_size_bytes", "journal.file_size_bytes"),
        ("JOURNAL_FILE_SIZE_BYTES", "journal.file_size_bytes"),
        ("journal-file-size-bytes", "journal.file_size_bytes"),
        ("broker_id", "node_id"),
        ("broker.id", "node_id"),
        ("replication_factor", "default_replication_factor"),
        ("min_insync_replicas", "log.min_insync_replicas"),
        ("log_retention_hours", "log.retention_ms"),
        ("segment-size", "log.segment_bytes"),
        ("log.segment.bytes", "log.segment_bytes"),
        ("log.roll.ms", "log.segment_ms"),
        ("group.max.size", "groups.group_max_size"),
        ("durability", "journal.durability"),
        ("log-level", "logging.level"),
    ],
)
def test_a_setting_answers_to_its_path_to_kafkas_name_and_to_the_old_one(name: str, path: str) -> None:
    assert resolve(name, "here").path == path


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("journal.file_sise_bytes", "journal.file_size_bytes"), ("prot", "port"), ("wal_enable", "wal_enabled")],
)
def test_an_unknown_name_is_an_error_that_offers_the_nearest(wrong: str, right: str) -> None:
    with pytest.raises(ConfigError, match=f"here: there is no setting '{wrong}'; did you mean '{right}'"):
        resolve(wrong, "here")


def test_a_name_that_is_like_no_other_is_an_error_too() -> None:
    with pytest.raises(ConfigError, match=r"no setting 'zzz'; config/broker\.yaml lists them all"):
        resolve("zzz", "here")
