"""A real Prometheus scrapes three nodes under load, and is asked everything that panels and alerts ask."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from deploy.grafana import generate

from tests.deploy.load import GROUP, SLOW_GROUP, TOPIC
from tests.deploy.pods import HTTP, REPOSITORY, Pods, among_pods
from tests.deploy.prometheus import ALERTS, CONFIG, Prometheus
from tests.interop.waiting import eventually
from tests.programs import require

GRAFANA = REPOSITORY / "deploy" / "grafana"
FILLED_IN = {"$__rate_interval": "10s", "$__range": "30s", "$topic": ".*", "$group": ".*"}
SELECTOR = re.compile(r"\b(?:ottla_\w+|up)(?:\{[^}]*\})?")
DATA_WITHIN_S = 60


def panels() -> list[tuple[str, str]]:
    """Dashboard and panel, and what it asks."""
    asked = []
    for file in sorted((GRAFANA / "dashboards").glob("*.json")):
        dashboard = json.loads(file.read_text())
        for panel in dashboard["panels"]:
            asked += [(f"{dashboard['title']}: {panel['title']}", target["expr"]) for target in panel["targets"]]
    return asked


def documented() -> list[tuple[str, str]]:
    """The queries that docs/METRICS.md names, over as long as the test has."""
    page = (REPOSITORY / "docs" / "METRICS.md").read_text()
    named = [code for code in re.findall(r"`([^`]+)`", page) if "ottla_" in code and "(" in code]
    return [("docs/METRICS.md", re.sub(r"\[\dm\]", "[10s]", code)) for code in named]


def alerts() -> list[tuple[str, str, str]]:
    """Name, expression and playbook."""
    rules = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
    return [(rule["alert"], rule["expr"], rule["annotations"]["playbook"]) for rule in rules]


def filled_in(expression: str) -> str:
    for name, value in FILLED_IN.items():
        expression = expression.replace(name, value)
    assert "$" not in expression, expression
    return expression


@pytest.fixture(scope="module")
def prometheus(running_pods: Pods, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    require("prometheus")
    pods = running_pods
    pods.until_in_service()
    made = pods.create(TOPIC, partitions=6)
    assert made.status_code == 201, made.text
    command = [sys.executable, "-m", "tests.deploy.load", pods.bootstrap, *(pod.url for pod in pods.pods)]
    load = subprocess.Popen(among_pods(pods.hosts, command), cwd=REPOSITORY)
    targets = [f"{pod.address}:{HTTP}" for pod in pods.pods]
    try:
        with Prometheus(tmp_path_factory.mktemp("prometheus"), targets) as running:
            yield running
            assert load.poll() is None
        load.terminate()
        assert load.wait(60) == 0
        # A worker that steals the rest of these tests later begins again, among the same pods.
        deleted = pods.delete(TOPIC)
        assert deleted.is_success, deleted.text
    finally:
        load.kill()
        load.wait(60)


def test_every_query_of_every_panel_and_of_the_page_returns_data(prometheus: Prometheus) -> None:
    assert len(documented()) > 3
    empty = {filled_in(query): panel for panel, query in (*panels(), *documented())}
    assert len(empty) > 60
    for _ in range(DATA_WITHIN_S):
        empty = {query: panel for query, panel in empty.items() if not prometheus.query(query)}
        if not empty:
            break
        prometheus.wait(1)
    assert empty == {}


def test_every_alert_is_evaluated_and_what_it_looks_at_is_there(prometheus: Prometheus) -> None:
    looked_at = {selector for _, expression, _ in alerts() for selector in SELECTOR.findall(expression)}
    for _ in range(DATA_WITHIN_S):
        looked_at = {selector for selector in looked_at if not prometheus.query(selector)}
        if not looked_at:
            break
        prometheus.wait(1)
    assert looked_at == set()
    for _, expression, _ in alerts():
        prometheus.query(expression)
    assert {rule["name"]: rule["health"] for rule in prometheus.rules()} == {name: "ok" for name, *_ in alerts()}


def test_no_alert_comes_of_a_cluster_that_is_well(prometheus: Prometheus) -> None:
    """But of the group that nobody reads for, and of what was asked for wrongly. The rest is the machine's affair."""
    may_be = {
        "OttlaGroupWithoutMembers",
        "OttlaPartitionsRefused",
        "OttlaDiskNearlyFull",
        "OttlaDiskFillsUp",
        "OttlaTransactionHangs",
    }
    slow = {"OttlaCommitsSlow", "OttlaProduceSlow", "OttlaEventLoopLate", "OttlaNodesSuspected"}

    def come() -> set[str]:
        return {name for name, expression, _ in alerts() if prometheus.query(expression)}

    eventually(lambda: "OttlaGroupWithoutMembers" in come())
    eventually(lambda: come() - may_be - slow == set())


def test_the_figures_are_those_of_the_load(prometheus: Prometheus) -> None:
    eventually(lambda: prometheus.query('sum(up{job="ottla"})') == [3])
    eventually(lambda: prometheus.query("max(ottla_brokers)") == [3])
    eventually(lambda: prometheus.query("sum(ottla_raft_is_leader)") == [1])
    written = f'sum(max by (partition) (ottla_partition_high_watermark{{topic="{TOPIC}"}}))'
    eventually(lambda: prometheus.query(f"{written} > 100"))
    eventually(lambda: prometheus.query(f'sum(ottla_group_lag_records{{group="{SLOW_GROUP}"}}) > 0'))
    assert prometheus.query(f'sum(ottla_group_lag_records{{group="{SLOW_GROUP}"}}) <= {written}')
    eventually(lambda: prometheus.query(f'sum(ottla_group_members{{group="{GROUP}"}})') == [1])


# Without a cluster


def test_the_files_of_grafana_are_what_the_generator_writes() -> None:
    written = {file.name: file.read_text() for file in (GRAFANA / "dashboards").glob("*.json")}

    assert written == {f"{each.uid}.json": generate.text_of(each) for each in generate.DASHBOARDS}
    assert [each.title for each in generate.DASHBOARDS] == [
        "Cluster Overview", "Performance", "Storage", "Replication", "Consumer Groups",
    ]  # fmt: skip


def test_panels_do_not_overlap_and_stay_on_the_page() -> None:
    for dashboard in generate.DASHBOARDS:
        taken: set[tuple[int, int]] = set()
        for place in generate.places(dashboard.panels):
            cells = {
                (x, y)
                for x in range(place["x"], place["x"] + place["w"])
                for y in range(place["y"], place["y"] + place["h"])
            }
            assert not cells & taken
            assert max(x for x, _ in cells) < generate.COLUMNS
            taken |= cells


def test_dashboards_ask_the_source_that_is_provisioned() -> None:
    [source] = yaml.safe_load((GRAFANA / "provisioning" / "datasources" / "prometheus.yml").read_text())["datasources"]
    assert {"type": source["type"], "uid": source["uid"]} == generate.SOURCE


@pytest.mark.parametrize("checked", [("config", CONFIG), ("rules", ALERTS)], ids=lambda checked: str(checked[0]))
def test_promtool_finds_nothing_wrong(checked: tuple[str, Path]) -> None:
    require("prometheus")
    kind, file = checked
    subprocess.run(["promtool", "check", kind, str(file)], check=True, capture_output=True, timeout=60)


def test_alerts_come_when_they_should() -> None:
    """`promtool test rules`: series that go wrong, and the alerts that must be there at a time."""
    require("prometheus")
    file = ALERTS.with_name("alerts_test.yml")
    done = subprocess.run(
        ["promtool", "test", "rules", str(file)], check=False, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_a_playbook() -> None:
    """Under a heading that a link can lead to."""
    headings = re.findall(r"^### (.+)$", (REPOSITORY / "docs" / "OPERATIONS.md").read_text(), re.MULTILINE)
    anchors = {re.sub(r"[^a-z0-9]+", "-", heading.lower()) for heading in headings}

    assert {playbook for *_, playbook in alerts()} - anchors == set()
