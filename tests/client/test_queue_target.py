from pathlib import Path

import pytest

from ottla.client.queue_target import QueueMode, QueueTargets, parse_target
from ottla.errors import ConfigError


def test_a_path_is_a_directory() -> None:
    targets, mode = parse_target("./queue", bootstrap_servers=None, topic="queue")

    assert mode is QueueMode.FILE
    assert targets.directory == Path.cwd() / "queue"


def test_a_path_may_be_a_path_object(tmp_path: Path) -> None:
    targets, _ = parse_target(tmp_path, bootstrap_servers=["a:1"], topic="queue")

    assert targets == QueueTargets(directory=tmp_path, servers="a:1", topic="queue")


def test_a_cluster_has_servers_and_perhaps_a_topic() -> None:
    plain, mode = parse_target("kafka://a:1,b:2", bootstrap_servers=None, topic="queue")
    named, _ = parse_target("kafka://a:1/orders", bootstrap_servers=None, topic="queue")

    assert mode is QueueMode.KAFKA
    assert (plain.servers, plain.topic) == ("a:1,b:2", "queue")
    assert (named.servers, named.topic) == ("a:1", "orders")


@pytest.mark.parametrize("target", ["http://a:1", "kafka://"])
def test_anything_else_is_refused(target: str) -> None:
    with pytest.raises(ConfigError):
        parse_target(target, bootstrap_servers=None, topic="queue")


def test_a_mode_needs_its_place() -> None:
    with pytest.raises(ConfigError, match="directory"):
        QueueTargets(servers="a:1").require(QueueMode.FILE)
    with pytest.raises(ConfigError, match="bootstrap_servers"):
        QueueTargets(directory=Path("q")).require(QueueMode.KAFKA)
