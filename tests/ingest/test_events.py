"""The generator: the same for the same seed, and as its settings say."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from datetime import datetime
from typing import Any

import pytest

from ottla.ingest.events import TOO_LATE, Event, Fate, Generator, IngestSettings, heartbeat

START_MS = 1_800_000_000_000
LATENESS_MS = 10_000


def made(count: int, **settings: Any) -> list[Event]:
    chosen = IngestSettings(**{"rate": 100, "lateness_ms": LATENESS_MS, **settings})
    return list(itertools.islice(Generator(chosen, START_MS), count))


def age_ms(event: Event) -> int:
    moment = datetime.fromisoformat(json.loads(event.value or b"")["event_time"])
    return event.timestamp_ms - round(moment.timestamp() * 1_000)


def test_the_same_seed_makes_the_same_events_and_another_makes_others() -> None:
    first, again, other = made(2_000), made(2_000), made(2_000, seed=2)

    assert first == again
    assert first != other


def test_shares_are_as_asked_for() -> None:
    events = made(40_000, late=0.1, duplicate=0.05, malformed=0.03, too_late=0.02)
    fates = Counter(event.fate for event in events)
    reasons = Counter(event.reason for event in events)
    originals = len(events) - fates[Fate.DUPLICATE]
    late = [event for event in events if event.fate is Fate.GOOD and age_ms(event) > 0]

    assert fates[Fate.DUPLICATE] / fates[Fate.GOOD] == pytest.approx(0.05, rel=0.15)
    assert reasons[TOO_LATE] / originals == pytest.approx(0.02, rel=0.15)
    assert (fates[Fate.DEAD] - reasons[TOO_LATE]) / originals == pytest.approx(0.03, rel=0.15)
    assert len(late) / originals == pytest.approx(0.1, rel=0.15)
    assert set(reasons) == {
        "", TOO_LATE, "not JSON", "no value", "no event_id", "no client_id", "no event_time", "no order_id",
        "event_time is not a time", "from the future", "unknown kind", "unknown status", "value is not a number",
        "amount is not a number",
    }  # fmt: skip


def test_shares_of_nothing_make_good_events_only() -> None:
    events = made(5_000, late=0, duplicate=0, malformed=0, too_late=0)

    assert {event.fate for event in events} == {Fate.GOOD}
    assert {age_ms(event) for event in events} == {0}


def test_events_come_in_the_order_of_their_moments_at_the_rate() -> None:
    events = made(10_000, duplicate=0.1)
    moments = [event.timestamp_ms for event in events]
    fresh = [event for event in events if event.fate is not Fate.DUPLICATE and event.fields.get("status") != "paid"]

    assert moments == sorted(moments)
    assert len(fresh) / (moments[-1] - moments[0]) * 1_000 == pytest.approx(100, rel=0.02)


def test_no_event_is_near_the_border_of_being_too_late() -> None:
    events = made(20_000, late=0.3, duplicate=0.3, too_late=0.1)

    for event in events:
        if event.fate in (Fate.GOOD, Fate.DUPLICATE):
            assert 0 <= age_ms(event) <= 0.6 * LATENESS_MS
        elif event.reason == TOO_LATE:
            assert age_ms(event) >= 2 * LATENESS_MS


def test_a_duplicate_is_byte_for_byte_an_event_that_was_sent() -> None:
    seen: set[bytes | None] = set()
    for event in made(10_000, duplicate=0.2):
        if event.fate is Fate.DUPLICATE:
            assert event.value in seen
        seen.add(event.value)


def test_good_events_have_ids_of_their_own() -> None:
    good = [event.fields["event_id"] for event in made(10_000) if event.fate is Fate.GOOD]

    assert len(good) == len(set(good))


def test_most_orders_are_paid_some_after_their_time() -> None:
    events = made(40_000, late=0, duplicate=0, malformed=0, too_late=0)
    orders = [event for event in events if event.fields["kind"] == "order"]
    placed = {event.fields["order_id"]: event.timestamp_ms for event in orders if event.fields["status"] == "placed"}
    waits = [
        event.timestamp_ms - placed[event.fields["order_id"]] for event in orders if event.fields["status"] == "paid"
    ]

    assert 0.7 < len(waits) / len(placed) < 0.82
    assert any(wait > LATENESS_MS for wait in waits)
    assert sum(wait <= LATENESS_MS for wait in waits) > 0.7 * len(waits)


def test_clients_are_active_by_turns() -> None:
    events = made(6_000, clients=6, late=0)
    first = {event.key for event in events if event.timestamp_ms < START_MS + 20_000 and "paid" not in str(event.value)}

    assert first <= {b"client-0", b"client-3"}
    assert len({event.key for event in events}) == 6


def test_a_heartbeat_tells_its_time() -> None:
    event = heartbeat(START_MS)

    assert (event.fate, age_ms(event), event.timestamp_ms) == (Fate.HEARTBEAT, 0, START_MS)


@pytest.mark.parametrize(
    "wrong", [{"rate": 0}, {"clients": 0}, {"late": -0.1}, {"duplicate": 1.5}, {"late": 0.6, "malformed": 0.6}]
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be"):
        IngestSettings(**wrong)
