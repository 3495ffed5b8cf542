from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.deploy.pods import REPOSITORY, Pods, require_mounts_of_its_own


@pytest.fixture(scope="session")
def manifests() -> list[dict[str, object]]:
    return list(yaml.safe_load_all((REPOSITORY / "deploy" / "kubernetes" / "ottla.yaml").read_text()))


@pytest.fixture(scope="session")
def config(tmp_path_factory: pytest.TempPathFactory, manifests: list[dict[str, object]]) -> Path:
    """The file that the config map puts into the pods."""
    [found] = [each for each in manifests if each["kind"] == "ConfigMap"]
    data = found["data"]
    assert isinstance(data, dict)
    file = tmp_path_factory.mktemp("config") / "broker.yaml"
    file.write_text(data["broker.yaml"])
    return file


@pytest.fixture(scope="session")
def running_pods(tmp_path_factory: pytest.TempPathFactory, config: Path) -> Iterator[Pods]:
    require_mounts_of_its_own()
    running = Pods(tmp_path_factory.mktemp("pods"), config)
    try:
        running.start()
        yield running
        assert running.stop() == [0, 0, 0], [pod.log for pod in running.pods]
    finally:
        running.kill()


@pytest.fixture
def pods(running_pods: Pods) -> Pods:
    running_pods.until_in_service()
    return running_pods
