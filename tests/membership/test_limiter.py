from ottla.membership.limiter import KEYS_MAX, Limiter


def test_the_same_thing_is_allowed_again_after_a_while() -> None:
    limiter = Limiter()
    allowed = [limiter.allows("it", now_ms, every_ms=10) for now_ms in (5, 6, 14, 15, 16)]
    assert allowed == [True, False, False, True, False]


def test_different_things_do_not_wait_for_each_other() -> None:
    limiter = Limiter()
    assert limiter.allows("one", 0, every_ms=10)
    assert limiter.allows("other", 0, every_ms=10)


def test_it_remembers_a_bounded_number_of_things_the_latest() -> None:
    limiter = Limiter()
    for number in range(2 * KEYS_MAX):
        assert limiter.allows(number, 0, every_ms=10)
    assert len(limiter._last_ms) == KEYS_MAX
    assert not limiter.allows(2 * KEYS_MAX - 1, 1, every_ms=10)
    assert limiter.allows(0, 1, every_ms=10)
