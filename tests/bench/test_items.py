"""What the items cover, and that they end in time."""

import pytest
from bench.items import FORMS, FULL, ITEM, ITEMS, NORMAL, SHORT, estimate_s, in_turn, title_of
from bench.queue_kinds import KINDS
from bench.servers import CLUSTERS, NAMES, PER_CORE
from bench.throughput import ACKS, COMPRESSIONS, LINGERS_MS, PARTITIONS, RECORD_BYTES

from bench import throughput


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ITEM)
def test_every_workload_and_system_of_an_item_exists(name: str, form: str) -> None:
    plan = ITEM[name].plan(form)

    assert all(title_of(workload) != workload for workload in plan.workloads)
    assert set(plan.systems) <= {*NAMES, PER_CORE, *CLUSTERS, *KINDS}


def test_normal_forms_repeat_three_times() -> None:
    assert {item.plan(NORMAL).repetitions for item in ITEMS if item.name not in ("flame", "headline")} == {3}


def test_the_headline_is_judged_by_more_pairs_than_that() -> None:
    assert ITEM["headline"].plan(NORMAL).repetitions >= 8


def test_the_covering_plan_of_throughput_takes_a_quarter_of_an_hour() -> None:
    assert estimate_s(ITEM["throughput"].plan(NORMAL), running=NAMES) <= 15 * 60


def test_short_forms_fit_into_half_an_hour_together() -> None:
    total_s, running = 0.0, tuple[str, ...]()
    for item in in_turn(ITEMS):
        plan = item.plan(SHORT)
        total_s += estimate_s(plan, running=running)
        running = tuple(plan.systems)

    assert total_s <= 30 * 60


def test_the_product_has_every_combination() -> None:
    names = ITEM["throughput"].plan(FULL).workloads
    combinations = len(RECORD_BYTES) * len(PARTITIONS) * len(COMPRESSIONS)

    assert len(set(names)) == combinations * len(ACKS) * len(LINGERS_MS) + combinations


def test_servers_that_are_up_cost_nothing_again() -> None:
    plan = ITEM["requests"].plan(SHORT)

    assert estimate_s(plan, running=plan.systems) < estimate_s(plan) - 60


def test_the_short_plan_is_part_of_the_covering_one() -> None:
    assert set(throughput.SHORT) < set(throughput.COVERING)
