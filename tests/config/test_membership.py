from dataclasses import fields

import pytest

from ottla.config.docs import field_docs
from ottla.config.membership import ALIASES, GossipConfig
from ottla.errors import ConfigError


def test_with_the_defaults_a_dead_member_is_suspected_within_a_second() -> None:
    config = GossipConfig()
    assert 2 * config.probe_interval_ms + 2 * config.probe_timeout_ms < 1_000


def test_every_setting_says_what_it_is_for() -> None:
    docs = field_docs(GossipConfig)
    assert [item.name for item in fields(GossipConfig) if len(docs.get(item.name, "").split()) < 3] == []


def test_the_old_names_lead_to_settings() -> None:
    assert set(ALIASES.values()) <= {item.name for item in fields(GossipConfig)}
    assert set(ALIASES) == {"gossip_interval", "probe_interval", "push_pull_interval", "udp_buffer_size"}


@pytest.mark.parametrize(
    ("name", "value"),
    [("gossip_interval_ms", 0), ("gossip_nodes", 0), ("packet_bytes_max", 1_199), ("packet_bytes_max", 65_508)],
)
def test_limits_hold(name: str, value: int) -> None:
    with pytest.raises(ConfigError, match=rf"^gossip\.{name}: "):
        GossipConfig(**{name: value})
