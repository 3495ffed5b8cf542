"""The arithmetic of `ottla plan`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.sizing import Machine, Workload, plan
from ottla.config.units import DAY_MS, MIB

ROOMY = Machine(disk_bytes=10**18, disk_bytes_per_s=10**12, network_bytes_per_s=10**12)
"""CPU alone decides."""


def wanted(messages_per_s: int = 10_000, **changes: int | float) -> Workload:
    given: dict[str, int | float] = {"message_bytes": 1_000, "retention_ms": 7 * DAY_MS, **changes}
    return Workload(messages_per_s=messages_per_s, **given)  # type: ignore[arg-type]  # the fields that are numbers


def test_a_million_messages_of_a_kilobyte_for_a_week_are_nearly_two_petabytes() -> None:
    found = plan(wanted(1_000_000), Machine())

    assert found.stored_bytes == pytest.approx(1.8e15, rel=0.05)
    assert found.in_bytes_per_s == pytest.approx(3e9, rel=0.05)
    assert found.decided_by == "disk room (bytes)"
    assert found.stored_bytes / found.brokers < Machine().disk_bytes * Machine().disk_share_max


@pytest.mark.parametrize(
    ("replicas", "batch_bytes", "measured_us"),
    [(1, 16 * 1024, 6.5), (1, MIB, 1.27), (3, 16 * 1024, 32), (3, MIB, 9)],
)
def test_cpu_per_message_is_what_the_benchmarks_measured(replicas: int, batch_bytes: int, measured_us: float) -> None:
    """docs/BENCHMARKS.md: 1 KB records, of all nodes together, without readers."""
    found = plan(wanted(1_000_000, replicas=replicas, batch_bytes=batch_bytes, readers=0), ROOMY)

    assert found.cores == pytest.approx(measured_us, rel=0.1)


def test_one_broker_more_than_needed_is_planned_so_that_one_can_be_lost() -> None:
    found = plan(wanted(200_000), ROOMY)

    assert found.brokers == max(need.brokers for need in found.needs) + 1


def test_there_are_never_fewer_brokers_than_replicas() -> None:
    assert plan(wanted(1), ROOMY).brokers == 3
    assert plan(wanted(1, replicas=1), ROOMY).brokers == 1


def test_large_batches_are_not_written_twice() -> None:
    small, large = plan(wanted(), ROOMY), plan(wanted(batch_bytes=2 * MIB), ROOMY)

    assert small.written_bytes_per_s == pytest.approx(2 * large.written_bytes_per_s, rel=0.02)


@given(
    messages_per_s=st.integers(1, 10**7),
    message_bytes=st.integers(1, 10**6),
    replicas=st.integers(1, 5),
    readers=st.integers(0, 10),
)
def test_more_of_anything_never_needs_less(
    messages_per_s: int, message_bytes: int, replicas: int, readers: int
) -> None:
    given = {"message_bytes": message_bytes, "replicas": replicas, "readers": readers}
    found = plan(wanted(messages_per_s, **given), Machine())
    for name in ("replicas", "readers"):
        more = plan(wanted(messages_per_s, **{**given, name: given[name] + 1}), Machine())
        assert more.out_bytes_per_s > found.out_bytes_per_s
        assert more.brokers >= found.brokers
    twice = plan(wanted(2 * messages_per_s, **given), Machine())
    assert twice.brokers >= found.brokers
    assert found.partitions % found.brokers == 0


@pytest.mark.parametrize(
    ("changes", "remark"),
    [({"replicas": 2}, "fewer than three replicas"), ({"batch_bytes": 1}, "a batch of its own")],
)
def test_what_is_unwise_is_said(changes: dict[str, int], remark: str) -> None:
    assert any(remark in said for said in plan(wanted(**changes), Machine()).remarks)
