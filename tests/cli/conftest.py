"""The `ottla` command as users run it: a process of its own, against a node that is a process of its own.

OTTLA_TEST_BOOTSTRAP lets the same tests run against another broker, for instance Apache Kafka.
"""

import itertools
import logging
import os
from collections.abc import Iterator
from contextlib import suppress

import pytest

from ottla.client.admin import Admin
from ottla.client.errors import TopicNotFoundError
from tests.cli.command import Ottla
from tests.interop.node_process import NodeProcess


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    given = os.environ.get("OTTLA_TEST_BOOTSTRAP")
    if given is not None:
        yield given
        return
    with NodeProcess(tmp_path_factory.mktemp("node")) as node:
        yield node.bootstrap
        assert node.stop() == 0


@pytest.fixture(scope="session")
def ottla(bootstrap: str) -> Ottla:
    """Runs commands against the session's node."""
    return Ottla(bootstrap)


@pytest.fixture(scope="session")
def admin(bootstrap: str) -> Iterator[Admin]:
    with Admin(bootstrap_servers=bootstrap) as admin:
        yield admin


@pytest.fixture(autouse=True)
def _client_log_level() -> Iterator[None]:
    """A command quiets the client's log for its process; a test that calls one in this process puts it back."""
    client_log = logging.getLogger("ottla.client")
    level = client_log.level
    yield
    client_log.setLevel(level)


_numbers = itertools.count()


@pytest.fixture
def topic_name() -> str:
    """A name that no other test has, here nor in another worker."""
    return f"cli-{os.getpid()}-{next(_numbers)}"


@pytest.fixture
def topic(admin: Admin, topic_name: str) -> Iterator[str]:
    """A topic of one partition. Not by commands: what a test is not about need not take half a second."""
    admin.create_topic(topic_name, partitions=1)
    yield topic_name
    with suppress(TopicNotFoundError):
        admin.delete_topic(topic_name)
