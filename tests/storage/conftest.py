"""What several tests of the storage are run with."""

from collections.abc import Iterator

import pytest

from ottla.storage import journal_reader, log_append, recovery


@pytest.fixture(params=[log_append.HELD_PIECES_MAX, 0], ids=["in pieces", "joined"])
def held_shares(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that must pass whichever way a share is held."""
    monkeypatch.setattr(log_append, "HELD_PIECES_MAX", request.param)


@pytest.fixture(scope="module")
def bounds_that_are_met() -> Iterator[None]:
    """For tests that write little: some of it is held joined and some in pieces, recovery keeps some of the entries it
    has read and reads others again, and what it reads ahead does not last.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_append, "HELD_PIECES_MAX", 6)
        patch.setattr(journal_reader, "KEPT_BYTES_MAX", 150)
        patch.setattr(recovery, "AHEAD_BYTES", 300)
        yield
