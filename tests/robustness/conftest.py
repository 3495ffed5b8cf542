"""Nodes to be mistreated."""

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.node_process import NodeProcess

_numbers = itertools.count()


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker for tests that only send bytes; it must still run after all of them."""
    given = os.environ.get("OTTLA_TEST_BOOTSTRAP")
    if given:
        yield given
        return
    with NodeProcess(tmp_path_factory.mktemp("node")) as node:
        yield node.bootstrap
        assert node.alive(), node.log()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    """A node of the test's own, not started yet."""
    process = NodeProcess(tmp_path / "node")
    yield process
    process.kill()


@pytest.fixture
def topic_name() -> str:
    return f"r-{os.getpid()}-{os.urandom(3).hex()}-{next(_numbers)}"
