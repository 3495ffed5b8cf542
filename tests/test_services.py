import gc
import weakref
from collections.abc import Sequence

from ottla.errors import BrokerError, ErrorCode
from ottla.services import Deferred, gather


def test_a_listener_is_called_once_with_the_answer() -> None:
    deferred: Deferred[int] = Deferred()
    seen: list[int | None] = []
    deferred.on_done(lambda done: seen.append(done.value))

    deferred.complete(7)

    assert seen == [7]


def test_a_listener_that_comes_late_is_called_at_once() -> None:
    deferred: Deferred[int] = Deferred()
    deferred.complete(7)
    seen: list[int | None] = []

    deferred.on_done(lambda done: seen.append(done.value))

    assert seen == [7]


def test_then_changes_a_value_and_passes_an_error_on() -> None:
    good: Deferred[int] = Deferred()
    bad: Deferred[int] = Deferred()
    doubled, refused = good.then(lambda value: value * 2), bad.then(lambda value: value * 2)

    good.complete(21)
    bad.fail(BrokerError(ErrorCode.NOT_COORDINATOR))

    assert doubled.value == 42
    assert refused.error is not None
    assert refused.error.code == ErrorCode.NOT_COORDINATOR


def test_gather_waits_for_all_and_keeps_their_order() -> None:
    first: Deferred[str] = Deferred()
    second: Deferred[str] = Deferred()

    def combine(parts: Sequence[str | BrokerError]) -> list[str]:
        return [str(part) for part in parts]

    whole = gather([first, second], combine)
    second.complete("b")
    assert not whole.done
    first.fail(BrokerError(ErrorCode.NONE, "a failed"))

    assert whole.value == ["a failed", "b"]


def test_gather_of_nothing_is_done() -> None:
    nothing: list[Deferred[int]] = []
    assert gather(nothing, len).value == 0


def test_whoever_holds_things_for_an_answer_hears_when_nobody_waits_for_it() -> None:
    deferred: Deferred[int] = Deferred()
    heard: list[str] = []
    deferred.on_abandon = lambda: heard.append("abandoned")
    deferred.on_done(lambda _: heard.append("answered"))

    deferred.abandon()
    deferred.complete(1)

    assert heard == ["abandoned"]


def test_an_answer_that_was_given_is_freed_without_the_collector() -> None:
    """Whoever holds things for an answer holds the answer too: that circle must end with it, or megabytes wait."""

    class Large:
        """What an answer may be."""

    class Waiting:
        def __init__(self) -> None:
            self.deferred: Deferred[Large] = Deferred()
            self.deferred.on_abandon = self.leave

        def leave(self) -> None:
            """Nobody waits any more."""

    gc.disable()
    try:
        waiting, answer = Waiting(), Large()
        freed = weakref.ref(answer)
        waiting.deferred.complete(answer)
        del waiting, answer
        assert freed() is None
    finally:
        gc.enable()
