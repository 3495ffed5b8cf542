from collections.abc import Iterator

import pytest

from ottla.config import GroupConfig
from tests.http_api.rig import HttpNode


@pytest.fixture(scope="package")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpNode]:
    """One for all: tests use topics and groups of their own."""
    groups = GroupConfig(group_initial_rebalance_delay_ms=50)
    with HttpNode(tmp_path_factory.mktemp("http"), groups=groups) as running:
        yield running
