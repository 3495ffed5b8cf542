"""What is done before a window begins."""

import pytest
from bench.native import DriverError

from bench import loads


def test_many_partitions_are_written_to_in_ever_longer_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that makes ten records a second."""
    asked: list[float] = []

    def rawload(**options: float) -> dict[str, float]:
        asked.append(options["seconds"])
        return {"requests": 10 * options["seconds"]}

    monkeypatch.setattr(loads, "rawload", rawload)
    loads.write_to_each("t", [9092] * 20)

    assert asked == [1, 2, 4]


def test_a_broker_that_takes_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loads, "rawload", lambda **options: {"requests": 0})

    with pytest.raises(DriverError, match="nothing was written to t in 1 s"):
        loads.write_to_each("t", [9092])
