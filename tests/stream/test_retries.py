"""How long to wait before the next attempt."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.stream.retries import Retries


@given(st.integers(1, 10_000), st.integers(1, 1_000), st.integers(1, 60_000))
def test_waits_grow_twofold_up_to_the_bound(failed: int, first_ms: int, most_ms: int) -> None:
    wait_ms = Retries(backoff_ms=first_ms, backoff_max_ms=most_ms).wait_ms(failed)
    longest = min(first_ms * 2 ** (failed - 1), most_ms)
    assert longest / 2 <= wait_ms <= longest


def test_not_all_wait_equally_long() -> None:
    assert len({Retries().wait_ms(3) for _ in range(20)}) > 1
