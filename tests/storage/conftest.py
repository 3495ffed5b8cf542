"""What several tests of the storage are run with."""

from collections.abc import Iterator

import pytest

from ottla.storage import log_append


@pytest.fixture(params=[log_append.HELD_PIECES_MAX, 0], ids=["in pieces", "joined"])
def held_shares(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that must pass whichever way a share is held."""
    monkeypatch.setattr(log_append, "HELD_PIECES_MAX", request.param)


@pytest.fixture(scope="module")
def some_shares_in_pieces() -> Iterator[None]:
    """For tests that hold little at a time: part of it is joined, and part is in pieces."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_append, "HELD_PIECES_MAX", 6)
        yield
