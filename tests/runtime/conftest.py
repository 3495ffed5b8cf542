"""What several tests of the runtime are run with."""

import pytest

from ottla.runtime import connection
from ottla.runtime.small_reads import SMALL_READS_MIN


@pytest.fixture(params=[SMALL_READS_MIN, 1], ids=["buffered", "small reads"])
def reads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that must pass whichever way connections are read: as they begin, and as after many small requests."""
    monkeypatch.setattr(connection, "SMALL_READS_MIN", request.param)
