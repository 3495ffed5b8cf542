from functools import reduce
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ottla.config import BrokerConfig, Durability, load_config
from ottla.config.names import Setting, normalised, settings
from ottla.config.units import INT64_MAX
from ottla.errors import ConfigError

DAY_MS = 24 * 3_600_000


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def write_file(text: str) -> str:
        path = tmp_path / "broker.yaml"
        path.write_text(text)
        return str(path)

    return write_file


def test_without_anything_the_defaults_hold() -> None:
    assert load_config() == BrokerConfig()


def test_flags_overrule_the_environment_and_the_environment_overrules_the_file(write: Any) -> None:
    path = write("port: 1\nnode_id: 1\nrack: file\n")
    env = {"OTTLA_PORT": "2", "OTTLA_NODE_ID": "2", "HOME": "/root"}
    config = load_config(path, env, {"port": 3, "address": None})
    assert (config.port, config.node_id, config.rack) == (3, 2, "file")


def test_a_section_may_be_nested_or_spelt_out(write: Any) -> None:
    nested = load_config(write("journal:\n  file_size_bytes: 1MiB\nlog:\n  retention:\n    ms: 1d\n"))
    flat = load_config(write("journal.file_size_bytes: 1048576\nlog.retention.ms: 86400000\n"))
    assert nested == flat
    assert (nested.journal.file_size_bytes, nested.log.retention_ms) == (1 << 20, DAY_MS)


def test_an_empty_file_and_an_empty_section_set_nothing(write: Any) -> None:
    assert load_config(write("")) == BrokerConfig()
    assert load_config(write("journal:\n")) == BrokerConfig()


def test_the_old_names_still_work(write: Any) -> None:
    config = load_config(
        write(
            "broker_id: 3\nport: 9094\nreplication_factor: 2\nmin_insync_replicas: 2\nlog_retention_hours: 168\n"
            "segment_size: 64MiB\ndata_dir: /var/ottla\nwal_enabled: true\n"
        )
    )
    assert (config.node_id, config.port, config.data_dir) == (3, 9094, "/var/ottla")
    assert (config.default_replication_factor, config.log.min_insync_replicas) == (2, 2)
    assert (config.log.retention_ms, config.log.segment_bytes) == (7 * DAY_MS, 64 << 20)
    assert config.journal.durability is Durability.COMMIT


@pytest.mark.parametrize(
    ("given", "retention_ms"), [("-1", -1), (12, DAY_MS // 2), ("2d", 2 * DAY_MS), ("90m", 90 * 60_000)]
)
def test_hours_of_retention_are_converted_and_minus_one_stays_without_limit(given: object, retention_ms: int) -> None:
    assert load_config(overrides={"log_retention_hours": given}).log.retention_ms == retention_ms


@pytest.mark.parametrize(
    ("overrides", "durability", "interval_ms"),
    [
        ({"wal_sync_interval": "0"}, Durability.COMMIT, 100),
        ({"wal_sync_interval": "250ms"}, Durability.INTERVAL, 250),
        ({"wal_sync_interval": 50}, Durability.INTERVAL, 50),
        ({"wal_enabled": "false"}, Durability.OS, 100),
        ({"wal_enabled": True, "wal_sync_interval": "1s"}, Durability.INTERVAL, 1_000),
    ],
)
def test_the_old_names_of_the_journal_choose_what_an_answer_means(
    overrides: dict[str, object], durability: Durability, interval_ms: int
) -> None:
    journal = load_config(overrides=overrides).journal
    assert (journal.durability, journal.sync_interval_ms) == (durability, interval_ms)


def test_variables_that_kubernetes_sets_for_a_service_named_ottla_are_not_settings() -> None:
    env = {
        "OTTLA_PORT": "tcp://10.96.0.7:9092",
        "OTTLA_SERVICE_HOST": "10.96.0.7",
        "OTTLA_SERVICE_PORT_KAFKA": "9092",
        "OTTLA_PORT_9092_TCP_ADDR": "10.96.0.7",
        "OTTLA_CONFIG": "/etc/ottla.yaml",
        "OTTLA_BOOTSTRAP_SERVERS": "a:9092",
    }
    assert load_config(env=env) == BrokerConfig()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("prot: 1\n", "no setting 'prot'; did you mean 'port'"),
        ("journal:\n  file_sise_bytes: 1\n", r"no setting 'journal.file_sise_bytes'; did you mean"),
        ("- a\n- b\n", "found a list"),
        ("port: [1\n", "not a YAML file"),
        ("port:\n", "port: has no value"),
        ("port: 70000\n", "port: 70000 can't be used; it must be from 0 to 65535"),
        ("journal:\n  sync_interval_ms: 0\n", r"journal\.sync_interval_ms: 0 can't be used"),
        ("segment_size: 1MiB\nlog:\n  segment_bytes: 2MiB\n", r"log\.segment_bytes is given twice"),
    ],
)
def test_a_file_that_can_not_be_used_is_named_in_the_complaint(write: Any, text: str, complaint: str) -> None:
    path = write(text)
    with pytest.raises(ConfigError, match=complaint) as caught:
        load_config(path)
    assert str(caught.value).startswith(path)


def test_a_missing_file_is_told() -> None:
    with pytest.raises(ConfigError, match=r"/nowhere/x\.yaml: can't be read: No such file"):
        load_config("/nowhere/x.yaml")


def test_a_bad_variable_is_named() -> None:
    with pytest.raises(ConfigError, match=r"^environment: OTTLA_PORT: "):
        load_config(env={"OTTLA_PORT": "nine"})
    with pytest.raises(ConfigError, match=r"^environment: OTTLA_PRT: there is no setting 'PRT'"):
        load_config(env={"OTTLA_PRT": "1"})


def test_the_same_value_under_two_names_is_no_contradiction() -> None:
    assert load_config(overrides={"broker_id": 4, "node_id": "4"}).node_id == 4


def _values(setting: Setting) -> st.SearchStrategy[object]:
    """Values of a setting that are valid by themselves."""
    kind: Any = setting.field.type
    low, high = (setting.field.metadata.get(limit) for limit in ("at_least", "at_most"))
    if kind is int or kind == int | None:
        return st.integers(low or 0, high or INT64_MAX)
    if kind is float:
        return st.floats(low, high)
    if kind is bool:
        return st.booleans()
    if kind == frozenset[str]:
        return st.sampled_from([frozenset({"delete"}), frozenset({"compact"}), frozenset({"compact", "delete"})])
    if kind is str or kind == str | None:
        return st.text("abcxyz-.0", min_size=1).filter(lambda text: text.lower() not in ("null", "none"))
    return st.sampled_from(list(kind))


TIED = {"address", "advertised_address"} | {
    path for path in settings() if "compaction_lag" in path or "session_t" in path
}
"""Settings that must fit to another one."""
GIVEN = st.fixed_dictionaries({}, optional={p: _values(s) for p, s in settings().items() if p not in TIED})


def _value_of(config: BrokerConfig, path: str) -> object:
    value: object = reduce(getattr, path.split("."), config)
    return value


@given(given=GIVEN)
def test_every_setting_can_be_given_in_a_file(given: dict[str, object]) -> None:
    with NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump({path: _yaml(value) for path, value in given.items()}, file)
        file.flush()
        config = load_config(file.name)
    assert {path: _value_of(config, path) for path in given} == given


@given(given=GIVEN)
def test_every_setting_can_be_given_in_the_environment(given: dict[str, object]) -> None:
    env = {f"OTTLA_{normalised(path).upper()}": _text(value) for path, value in given.items()}
    config = load_config(env=env)
    assert {path: _value_of(config, path) for path in given} == given


def _text(value: object) -> str:
    return ",".join(sorted(value)) if isinstance(value, frozenset) else str(value)


def _yaml(value: object) -> object:
    if isinstance(value, frozenset):
        return sorted(value)
    return str(value) if isinstance(value, str) else value
