"""The heap of deadlines: fires in order, moves cheaply, forgets what is cancelled."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.groups.effects import Effects
from ottla.groups.timers import HEAP_SLACK, Timer, Timers


def fire(timers: Timers, now_ms: int) -> None:
    for timer in timers.due(now_ms):
        timer.on_time(now_ms, Effects())


class Noted:
    """Timers that write down when they fired."""

    def __init__(self) -> None:
        self.fired: list[tuple[str, int]] = []

    def timer(self, name: str) -> Timer:
        return Timer(lambda now_ms, _: self.fired.append((name, now_ms)))


def test_timers_fire_in_order_and_once() -> None:
    timers, noted = Timers(), Noted()
    for name, at_ms in (("late", 30), ("early", 10), ("also early", 10)):
        timers.set(noted.timer(name), at_ms)

    fire(timers, 9)
    fire(timers, 20)
    fire(timers, 40)
    fire(timers, 50)

    assert noted.fired == [("early", 20), ("also early", 20), ("late", 40)]


def test_a_deadline_that_moves_back_and_forth_fires_at_its_last_value() -> None:
    timers, noted = Timers(), Noted()
    timer = noted.timer("it")
    for at_ms in (100, 300, 50, 200):
        timers.set(timer, at_ms)

    fire(timers, 199)
    assert noted.fired == []
    fire(timers, 200)

    assert noted.fired == [("it", 200)]
    assert timers.next_deadline_ms() is None


def test_a_cancelled_timer_does_not_fire_and_can_be_set_again() -> None:
    timers, noted = Timers(), Noted()
    timer = noted.timer("it")
    timers.set(timer, 10)
    timers.cancel(timer)
    timers.cancel(timer)
    assert timers.next_deadline_ms() is None
    fire(timers, 20)

    timers.set(timer, 30)
    fire(timers, 30)

    assert noted.fired == [("it", 30)]


def test_moving_a_deadline_does_not_make_the_heap_grow() -> None:
    timers, noted = Timers(), Noted()
    timer = noted.timer("it")
    for at_ms in range(10, 10_000):
        timers.set(timer, at_ms)

    assert len(timers._heap) == 1


def test_timers_that_come_and_go_do_not_make_the_heap_grow() -> None:
    timers, noted = Timers(), Noted()
    stays = noted.timer("stays")
    timers.set(stays, 2_000_000)
    for at_ms in range(1_000_000, 1_010_000):
        timer = noted.timer("goes")
        timers.set(timer, at_ms)
        timers.discard(timer)

    assert len(timers._heap) <= HEAP_SLACK + 3
    fire(timers, 2_000_000)
    assert noted.fired == [("stays", 2_000_000)]


def test_a_timer_may_set_itself_and_cancel_others_while_it_fires() -> None:
    timers, noted = Timers(), Noted()
    other = noted.timer("other")

    def again(now_ms: int, effects: Effects) -> None:
        noted.fired.append(("again", now_ms))
        timers.cancel(other)
        if now_ms < 30:
            timers.set(repeating, now_ms + 10)

    repeating = Timer(again)
    timers.set(repeating, 10)
    timers.set(other, 10)

    for now_ms in (10, 20, 30, 40):
        fire(timers, now_ms)

    assert noted.fired == [("again", 10), ("again", 20), ("again", 30)]


@given(st.lists(st.tuples(st.integers(0, 5), st.one_of(st.none(), st.integers(0, 50))), max_size=60))
def test_timers_do_what_a_plain_table_of_deadlines_does(changes: list[tuple[int, int | None]]) -> None:
    timers, noted = Timers(), Noted()
    all_timers = [noted.timer(str(index)) for index in range(6)]
    expected: dict[str, int] = {}
    for index, at_ms in changes:
        if at_ms is None:
            timers.cancel(all_timers[index])
            expected.pop(str(index), None)
        else:
            timers.set(all_timers[index], at_ms)
            expected[str(index)] = at_ms

    now_ms = 0
    while (next_ms := timers.next_deadline_ms()) is not None:
        now_ms = max(now_ms, next_ms)
        fire(timers, now_ms)

    assert dict(noted.fired) == expected
    assert len(noted.fired) == len(expected)
