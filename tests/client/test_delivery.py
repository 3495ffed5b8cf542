import asyncio
import threading
from functools import partial
from typing import Any

import pytest
from confluent_kafka import KafkaError

from ottla.client.delivery import DeliveryFuture, Outcomes, RecordMetadata
from ottla.client.errors import DeliveryError, TimedOutError


class Report:
    """A delivered message, as librdkafka hands it over."""

    def partition(self) -> int:
        return 3

    def offset(self) -> int:
        return 42

    def timestamp(self) -> tuple[int, int]:
        return (1, 1_700_000_000_000)


REFUSED = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)


@pytest.fixture
def outcomes() -> Outcomes:
    return Outcomes()


@pytest.fixture
def future(outcomes: Outcomes) -> DeliveryFuture:
    return DeliveryFuture("t", outcomes)


def test_an_acknowledged_record_tells_where_it_is(future: DeliveryFuture) -> None:
    assert not future.done()

    future(None, Report())

    assert future.done()
    assert future.result(0) == RecordMetadata("t", 3, 42, 1_700_000_000_000)
    assert future.exception(0) is None


def test_a_refused_record_raises(future: DeliveryFuture) -> None:
    future(REFUSED, None)

    with pytest.raises(DeliveryError, match="a record for t was not delivered"):
        future.result(0)
    assert isinstance(future.exception(0), DeliveryError)


def test_waiting_ends_with_the_report_of_another_thread(future: DeliveryFuture) -> None:
    threading.Timer(0.01, future, (None, Report())).start()

    assert future.result(5).offset == 42


def test_waiting_for_too_long_raises_and_the_record_is_still_on_its_way(future: DeliveryFuture) -> None:
    with pytest.raises(TimedOutError):
        future.result(0.001)

    future(None, Report())

    assert future.result(0).offset == 42


def test_callbacks_run_once_before_and_after_the_report(future: DeliveryFuture) -> None:
    calls: list[str] = []
    future.add_done_callback(lambda _: calls.append("early"))

    future(None, Report())
    future.add_done_callback(lambda _: calls.append("late"))

    assert calls == ["early", "late"]


def test_a_callback_that_fails_does_not_stop_the_others(
    future: DeliveryFuture, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[DeliveryFuture] = []

    def broken(_: DeliveryFuture) -> None:
        raise ValueError("on purpose")

    future.add_done_callback(broken)
    future.add_done_callback(calls.append)
    future(None, Report())

    assert calls == [future]
    assert "on purpose" in caplog.text


def test_no_callback_is_lost_or_run_twice_when_it_races_with_the_report(outcomes: Outcomes) -> None:
    """Two threads meet at every future: one reports, one registers and waits."""
    futures = [DeliveryFuture("t", outcomes) for _ in range(2_000)]
    calls: list[int] = []

    def report() -> None:
        for future in futures:
            future(None, Report())

    reporter = threading.Thread(target=report)
    reporter.start()
    for number, future in enumerate(futures):
        future.add_done_callback(partial(_note, calls, number))
    reporter.join()

    assert sorted(calls) == list(range(2_000))


def _note(calls: list[int], number: int, _: DeliveryFuture) -> None:
    calls.append(number)


def test_it_can_be_awaited(outcomes: Outcomes) -> None:
    async def wait_for_three() -> list[RecordMetadata]:
        pending = [DeliveryFuture("t", outcomes) for _ in range(3)]
        for future in pending:
            threading.Timer(0.01, future, (None, Report())).start()
        return [await future for future in pending]

    assert [metadata.offset for metadata in asyncio.run(wait_for_three())] == [42, 42, 42]


def test_awaiting_a_failed_one_raises(future: DeliveryFuture) -> None:
    async def wait() -> RecordMetadata:
        return await future

    future(REFUSED, None)

    with pytest.raises(DeliveryError):
        asyncio.run(wait())


def fail(outcomes: Outcomes, count: int) -> list[DeliveryFuture]:
    futures = [DeliveryFuture("t", outcomes) for _ in range(count)]
    for future in futures:
        future(REFUSED, None)
    return futures


def test_failures_that_nobody_looked_at_are_counted(outcomes: Outcomes) -> None:
    seen, *_ = fail(outcomes, 3)
    seen.exception(0)

    count, reason = outcomes.take_unseen()

    assert count == 2
    assert isinstance(reason, DeliveryError)
    assert outcomes.take_unseen() == (0, None)
    assert outcomes.failed == 3


def test_looking_through_a_callback_counts(outcomes: Outcomes) -> None:
    future = DeliveryFuture("t", outcomes)
    future.add_done_callback(lambda done: done.exception())
    future(REFUSED, None)

    assert outcomes.take_unseen() == (0, None)


def test_no_more_than_a_bounded_number_of_failures_is_kept(outcomes: Outcomes, monkeypatch: Any) -> None:
    monkeypatch.setattr(Outcomes, "FAILURES_KEPT", 2)
    for future in fail(outcomes, 5):
        future.exception(0)

    count, _ = outcomes.take_unseen()

    assert count == 3  # the two that were kept are known to have been seen


def test_every_outcome_is_counted(outcomes: Outcomes) -> None:
    DeliveryFuture("t", outcomes)(None, Report())
    fail(outcomes, 2)

    assert outcomes.finished.value() == 3
    assert outcomes.finished.value() == 3  # reading does not count
