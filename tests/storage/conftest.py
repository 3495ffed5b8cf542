"""What several tests of the storage are run with."""

from collections.abc import Iterator

import pytest

from ottla.storage import log_append


@pytest.fixture(params=[log_append.HELD_AS_IT_IS_BYTES_MIN, 1], ids=["copied", "in pieces"])
def held_shares(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that must pass whichever way a share is held."""
    monkeypatch.setattr(log_append, "HELD_AS_IT_IS_BYTES_MIN", request.param)


@pytest.fixture(scope="module")
def some_shares_in_pieces() -> Iterator[None]:
    """For tests whose batches are small: what they hold is copied in part, and held as it is in part."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_append, "HELD_AS_IT_IS_BYTES_MIN", 150)
        yield
