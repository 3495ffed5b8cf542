"""What other tools read: checked by those tools, or against their own schemas, and against each other."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from ottla.config import load_config
from tests.deploy.pods import REPOSITORY
from tests.programs import require

DEPLOY = REPOSITORY / "deploy"
COMPOSE = DEPLOY / "docker" / "docker-compose.yml"
DOCKERFILE = DEPLOY / "docker" / "Dockerfile"
UNIT = DEPLOY / "systemd" / "ottla.service"
BROKERS = ("ottla-1", "ottla-2", "ottla-3")
KUBERNETES_VERSIONS = ("1.30", "1.34")

Manifest = dict[str, Any]


# Compose


def compose() -> Manifest:
    found: Manifest = yaml.safe_load(COMPOSE.read_text())
    return found


def test_the_compose_file_is_one_by_the_schema() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(COMPOSE)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)

    assert done.returncode == 0, done.stdout


def test_brokers_are_given_settings_that_a_node_takes() -> None:
    services = compose()["services"]
    configs = [load_config(None, services[name]["environment"]) for name in BROKERS]

    assert [config.node_id for config in configs] == [1, 2, 3]
    assert [config.port for config in configs] == [9092, 9093, 9094]
    assert {len(config.seeds) for config in configs} == {3}
    seeds = {f"127.0.0.1:{config.cluster_port}" for config in configs}
    assert all(config.seeds == seeds for config in configs)
    assert len({config.rack for config in configs}) == 3
    assert all(config.default_replication_factor == 3 and config.log.min_insync_replicas == 2 for config in configs)


def test_every_port_of_the_compose_file_is_where_people_look_for_it() -> None:
    services = compose()["services"]

    assert services["network"]["ports"] == ["9092-9094:9092-9094", "8080-8082:8080-8082"]
    assert services["prometheus"]["ports"] == ["9090:9090"]
    assert services["grafana"]["ports"] == ["3000:3000"]
    assert all(services[name]["network_mode"] == "service:network" for name in BROKERS)


def test_prometheus_scrapes_every_broker_by_a_name_that_leads_there() -> None:
    services = compose()["services"]
    [job] = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())["scrape_configs"]
    [static] = job["static_configs"]
    ports = {name: services[name]["environment"]["OTTLA_HTTP_PORT"] for name in BROKERS}

    assert static["targets"] == [f"{name}:{port}" for name, port in ports.items()]
    assert services["network"]["networks"]["default"]["aliases"] == list(BROKERS)


def test_every_directory_that_a_container_is_given_is_there() -> None:
    mounted = [volume for service in compose()["services"].values() for volume in service.get("volumes", [])]
    named = set(compose()["volumes"])
    sources = [volume.split(":")[0] for volume in mounted]

    assert {source for source in sources if not source.startswith(".")} == named
    assert all((COMPOSE.parent / source).is_dir() for source in sources if source.startswith("."))


# The image


def test_everything_that_the_image_copies_is_there_and_let_through() -> None:
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE.read_text(), re.MULTILINE)
    sources = [source for line in copied for source in line.split()]
    let_through = re.findall(r"^!(.+)$", (REPOSITORY / ".dockerignore").read_text(), re.MULTILINE)

    assert sources
    assert all((REPOSITORY / source).exists() for source in sources)
    assert all(any(source == way or source.startswith(f"{way}/") for way in let_through) for source in sources)


def test_the_image_runs_as_somebody_without_rights_and_tells_its_health() -> None:
    *_, last = DOCKERFILE.read_text().split("\nFROM ")

    assert re.search(r"^USER ottla$", last, re.MULTILINE)
    assert re.search(r"^HEALTHCHECK .*CMD", last, re.MULTILINE)
    assert "pip install" not in last


def test_the_entry_point_can_be_executed() -> None:
    entry = DEPLOY / "docker" / "entrypoint.sh"

    assert entry.stat().st_mode & 0o111
    subprocess.run(["sh", "-n", str(entry)], check=True, timeout=60)


# Kubernetes


@pytest.mark.parametrize("version", KUBERNETES_VERSIONS)
def test_kubernetes_takes_every_manifest(manifests: list[Manifest], version: str) -> None:
    for manifest in manifests:
        kubernetes_validate.validate(manifest, version, strict=True)


def one(manifests: list[Manifest], kind: str, name: str = "ottla") -> Manifest:
    [found] = [each for each in manifests if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return found


def test_there_is_all_that_three_nodes_need(manifests: list[Manifest]) -> None:
    stateful = one(manifests, "StatefulSet")["spec"]
    [container] = stateful["template"]["spec"]["containers"]
    headless = one(manifests, "Service")["spec"]

    assert stateful["replicas"] == 3
    assert {variable["name"] for variable in container["env"]} >= {"POD_NAME", "POD_SERVICE", "NODE_NAME"}
    assert {"POD_REPLICAS": "3"}.items() <= {each["name"]: each.get("value") for each in container["env"]}.items()
    assert headless["clusterIP"] == "None"
    assert headless["publishNotReadyAddresses"] is True
    assert stateful["serviceName"] == "ottla"
    assert one(manifests, "PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
    assert container["resources"]["limits"]["memory"]
    assert {"startupProbe", "livenessProbe", "readinessProbe"} <= set(container)
    assert stateful["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"]


def test_everything_that_selects_pods_finds_those_of_the_set(manifests: list[Manifest]) -> None:
    labels = one(manifests, "StatefulSet")["spec"]["template"]["metadata"]["labels"]
    services = [each for each in manifests if each["kind"] == "Service"]

    assert len(services) == 2
    assert all(service["spec"]["selector"] == labels for service in services)
    assert one(manifests, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == labels


def test_the_zone_may_be_asked_for(manifests: list[Manifest]) -> None:
    role = one(manifests, "ClusterRole", "ottla-zones")
    binding = one(manifests, "ClusterRoleBinding", "ottla-zones")
    account = one(manifests, "StatefulSet")["spec"]["template"]["spec"]["serviceAccountName"]

    assert role["rules"] == [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert [subject["name"] for subject in binding["subjects"]] == [account]


def test_the_settings_of_the_config_map_are_ones_that_a_node_takes(config: Path) -> None:
    taken = load_config(str(config))

    assert (taken.default_replication_factor, taken.log.min_insync_replicas) == (3, 2)


# systemd


def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    """With the command that is installed here, since it looks for that."""
    require("systemd-analyze")
    script = Path(sys.executable).with_name("ottla")
    unit = tmp_path / "ottla.service"
    unit.write_text(UNIT.read_text().replace("/opt/ottla/bin/ottla", str(script)))

    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], check=False, capture_output=True, text=True, timeout=60
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_the_unit_gives_flags_that_ottla_start_takes(tmp_path: Path) -> None:
    [command] = re.findall(r"^ExecStart=\S+/ottla start (.+)$", UNIT.read_text(), re.MULTILINE)

    assert command == "--config /etc/ottla/broker.yaml"
    assert load_config(str(REPOSITORY / "config" / "broker.yaml"), {"OTTLA_DATA_DIR": "/var/lib/ottla"})
