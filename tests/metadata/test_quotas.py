from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.config import QuotaConfig
from ottla.metadata import quotas
from ottla.metadata.image import QuotaEntity, quota_entity
from ottla.metadata.quotas import (
    CONSUMER_BYTE_RATE,
    PRODUCER_BYTE_RATE,
    ClientRates,
    Rate,
    client_share,
)

DEFAULTS = QuotaConfig()
USER, CLIENT = "user", "client-id"


def entity(**parts: str | None) -> QuotaEntity:
    return quota_entity([(kind.replace("_", "-"), name) for kind, name in parts.items()])


FROM_MOST_SPECIFIC = [
    (entity(user="u", client_id="c"), entity(user="u", client_id="c")),
    (entity(user="u", client_id=None), entity(user="u", client_id="c")),
    (entity(user="u"), entity(user="u")),
    (entity(user=None, client_id="c"), entity(user="u", client_id="c")),
    (entity(user=None, client_id=None), entity(user="u", client_id="c")),
    (entity(user=None), entity(user="u")),
    (entity(client_id="c"), entity(client_id="c")),
    (entity(client_id=None), entity(client_id="c")),
]
"""Whom a quota can be set for, in Kafka's order, and who uses it up together with client c of user u."""


def test_the_most_specific_quota_wins_and_says_who_shares_it() -> None:
    left = {owner: {PRODUCER_BYTE_RATE: 1.0} for owner, _ in FROM_MOST_SPECIFIC}
    for number, (owner, used_by) in enumerate(FROM_MOST_SPECIFIC):
        left[owner] = {PRODUCER_BYTE_RATE: float(number)}
        share = client_share(left, PRODUCER_BYTE_RATE, "u", "c")
        assert share == (number, used_by)
        del left[owner]
    assert client_share(left, PRODUCER_BYTE_RATE, "u", "c") is None


def test_a_quota_of_another_kind_does_not_hide_a_less_specific_one() -> None:
    all_quotas = {entity(user="u"): {CONSUMER_BYTE_RATE: 1.0}, entity(user=None): {PRODUCER_BYTE_RATE: 2.0}}
    share = client_share(all_quotas, PRODUCER_BYTE_RATE, "u", "c")
    assert share is not None
    assert share.per_second == 2.0


def test_others_quotas_do_not_count() -> None:
    all_quotas = {entity(user="v"): {PRODUCER_BYTE_RATE: 1.0}, entity(client_id="d"): {PRODUCER_BYTE_RATE: 1.0}}
    assert client_share(all_quotas, PRODUCER_BYTE_RATE, "u", "c") is None


def test_a_client_within_its_quota_does_not_wait() -> None:
    rate = Rate(DEFAULTS)
    assert [rate.record(900, 1_000, second * 1_000) for second in range(30)] == [0] * 30


def test_a_client_over_its_quota_waits_the_longer_the_more_it_is_over() -> None:
    waits = []
    for amount in (1_500, 2_000, 4_000):
        rate = Rate(DEFAULTS)
        waits.append([rate.record(amount, 1_000, second * 1_000) for second in range(30)][-1])
    assert waits == [6_500, 12_000, 34_000]


def test_a_burst_is_spread_over_the_windows_before_it_is_held_back() -> None:
    assert Rate(DEFAULTS).record(10_000, 1_000, 0) == 0, "ten windows of it are there"
    assert Rate(DEFAULTS).record(12_000, 1_000, 0) == 2_000, "two seconds more than the windows"


def test_old_use_is_forgotten() -> None:
    rate = Rate(DEFAULTS)
    assert rate.record(1_000_000, 1_000, 0) > 0
    assert not rate.is_idle(10_999)
    assert rate.is_idle(11_000)
    assert rate.record(1, 1_000, 11_000) == 0


def test_what_was_counted_can_be_taken_back() -> None:
    rate = Rate(DEFAULTS)
    assert rate.record(20_000, 1_000, 0) > 0
    assert rate.record(-20_000, 1_000, 0) == 0


@dataclass
class Sample:
    start_ms: int
    last_ms: int
    value: float = 0.0


class KafkaRate:
    """The way Kafka measures a rate, step by step: a ring of samples, reset when they are too old."""

    def __init__(self, config: QuotaConfig) -> None:
        self.window_ms = config.window_size_seconds * 1_000
        self.samples_max = config.window_num
        self.ring: list[Sample] = []
        self.current = 0

    def record(self, value: float, bound: float, now_ms: int) -> int:
        if not self.ring:
            self.ring.append(Sample(now_ms, now_ms))
        elif now_ms - self.ring[self.current].start_ms >= self.window_ms:
            self.current = (self.current + 1) % (self.samples_max + 1)
            if self.current >= len(self.ring):
                self.ring.append(Sample(now_ms, now_ms))
            else:
                self.ring[self.current] = Sample(now_ms, now_ms)
        self.ring[self.current].value += value
        self.ring[self.current].last_ms = now_ms
        for index, sample in enumerate(self.ring):
            if now_ms - sample.last_ms >= self.samples_max * self.window_ms:
                self.ring[index] = Sample(now_ms, now_ms)
        elapsed_ms = now_ms - min(sample.start_ms for sample in self.ring)
        full_windows = elapsed_ms // self.window_ms
        if full_windows < self.samples_max - 1:
            elapsed_ms += (self.samples_max - 1 - full_windows) * self.window_ms
        elapsed_ms = max(elapsed_ms, 1)
        observed = sum(sample.value for sample in self.ring) / (elapsed_ms / 1_000)
        return round((observed - bound) / bound * elapsed_ms) if observed > bound else 0


@given(
    steps=st.lists(st.tuples(st.integers(0, 5_000), st.integers(0, 50_000)), max_size=60),
    bound=st.integers(1, 5_000),
    windows=st.integers(2, 12),
    seconds=st.integers(1, 3),
)
def test_a_rate_is_measured_as_kafka_measures_it(
    steps: list[tuple[int, int]], bound: int, windows: int, seconds: int
) -> None:
    config = QuotaConfig(window_num=windows, window_size_seconds=seconds)
    ours, kafkas, now_ms = Rate(config), KafkaRate(config), 1_000_000
    for pause_ms, amount in steps:
        now_ms += pause_ms
        assert abs(ours.record(amount, bound, now_ms) - kafkas.record(amount, bound, now_ms)) <= 1


def rates(**per_second: float) -> ClientRates:
    found = ClientRates(PRODUCER_BYTE_RATE, DEFAULTS)
    found.update({entity(user=user): {PRODUCER_BYTE_RATE: value} for user, value in per_second.items()})
    return found


def test_without_a_quota_nothing_is_recorded() -> None:
    found = ClientRates(PRODUCER_BYTE_RATE, DEFAULTS)
    assert not found.is_active
    assert found.record("u", "c", 10**12, 0) == 0
    found.update({entity(user="u"): {CONSUMER_BYTE_RATE: 1.0}})
    assert not found.is_active


def test_all_clients_of_a_user_use_its_quota_together() -> None:
    found = rates(u=1_000)
    assert found.record("u", "a", 8_000, 0) == 0
    assert found.record("u", None, 8_000, 0) == 6_000
    assert found.record("v", "a", 10**9, 0) == 0, "another user has none"


def test_every_client_has_the_default_quota_for_itself() -> None:
    found = ClientRates(PRODUCER_BYTE_RATE, DEFAULTS)
    found.update({entity(client_id=None): {PRODUCER_BYTE_RATE: 1_000.0}})
    assert found.record("u", "a", 8_000, 0) == 0
    assert found.record("u", "b", 8_000, 0) == 0
    assert found.record("u", "a", 8_000, 0) == 6_000


def test_a_changed_quota_holds_at_once_and_keeps_what_was_used() -> None:
    found = rates(u=1_000)
    assert found.record("u", "c", 10_000, 0) == 0
    found.update({entity(user="u"): {PRODUCER_BYTE_RATE: 500.0}})
    assert found.record("u", "c", 0, 0) == 10_000
    found.update({})
    assert found.record("u", "c", 10**9, 0) == 0


def test_the_largest_burst_is_known_beforehand() -> None:
    assert rates(u=1_000).burst_bytes("u", "c") == 10_000
    assert rates(u=1_000).burst_bytes("v", "c") is None
    assert ClientRates(PRODUCER_BYTE_RATE, DEFAULTS).burst_bytes("u", "c") is None


def test_clients_that_come_and_go_cost_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quotas, "CLIENTS_MAX", 100)
    found = ClientRates(PRODUCER_BYTE_RATE, DEFAULTS)
    found.update({entity(client_id=None): {PRODUCER_BYTE_RATE: 1_000.0}})
    for number in range(5_000):
        found.record("u", f"client-{number}", 1, number * 1_000)
    assert len(found._shares) <= 100
    assert len(found._rates) <= 30, "those of the last windows"
