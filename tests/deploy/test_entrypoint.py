"""The image's entry point, run directly: pods found a cluster by name, and know their rack."""

import http.server
import json
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.cli.command import environment
from tests.deploy.pods import DOCKER, SERVICE, Pods
from tests.interop.waiting import eventually


def test_three_pods_found_one_cluster_under_their_names(pods: Pods) -> None:
    status = httpx.get(f"{pods.pods[1].url}/cluster/status", timeout=30).json()

    assert {broker["id"]: broker["rack"] for broker in status["brokers"]} == {
        1: "zone-ottla-0",
        2: "zone-ottla-1",
        3: "zone-ottla-2",
    }
    assert {broker["host"] for broker in status["brokers"]} == {f"ottla-{number}.{SERVICE}" for number in range(3)}
    assert status["controller"] in (1, 2, 3)


def test_the_settings_of_the_config_map_hold(pods: Pods) -> None:
    made = httpx.post(f"{pods.pods[2].url}/topics/of-the-map", timeout=30)

    assert made.status_code == 201, made.text
    topic = httpx.get(f"{pods.pods[0].url}/topics/of-the-map", timeout=30).json()
    assert [len(partition["replicas"]) for partition in topic["partitions"]] == [3] * 6


def test_what_is_written_to_one_pod_is_read_from_another(pods: Pods) -> None:
    topic = "of-all-pods"
    assert httpx.post(f"{pods.pods[0].url}/topics/{topic}", json={"num_partitions": 1}, timeout=30).status_code == 201
    written = httpx.post(f"{pods.pods[0].url}/topics/{topic}/produce", json={"value": "hello"}, timeout=30)
    assert written.status_code == 200, written.text

    read = httpx.get(f"{pods.pods[2].url}/topics/{topic}/partitions/0/consume", params={"wait_ms": 5000}, timeout=30)

    assert [record["value"] for record in read.json()["records"]] == ["hello"]


def test_the_health_check_of_the_image_tells_ready_from_not(pods: Pods) -> None:
    command = [sys.executable, str(DOCKER / "healthcheck.py")]
    pod = pods.pods[0]
    good = {**environment(None), "OTTLA_HTTP_ADDRESS": pod.address, "OTTLA_HTTP_PORT": "8080"}
    eventually(lambda: subprocess.run(command, env=good, check=False, timeout=30).returncode == 0)
    nobody = {**good, "OTTLA_HTTP_PORT": "1"}
    refused = subprocess.run(command, env=nobody, check=False, timeout=30, capture_output=True)
    assert refused.returncode == 1
    assert b"http://" in refused.stdout


def test_other_commands_of_ottla_are_run_as_they_are(tmp_path: Path) -> None:
    done = subprocess.run(
        [str(DOCKER / "entrypoint.sh"), "version"],
        env={**environment(None), "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert "0.1" in done.stdout


# The zone


class KubernetesApi(http.server.BaseHTTPRequestHandler):
    """The one resource that is asked for, for the one token that may."""

    def do_GET(self) -> None:  # the library's name
        is_known = self.headers["Authorization"] == "Bearer secret" and self.path == "/api/v1/nodes/machine-7"
        labels = {"topology.kubernetes.io/zone": "eu-1b"}
        body = json.dumps({"metadata": {"labels": labels}} if is_known else {"code": 403}).encode()
        self.send_response(200 if is_known else 403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the library's name
        """Not among the test's output."""


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A service account's directory: a token, and the certificate of the API that it is for."""
    directory = tmp_path_factory.mktemp("account")
    names = ["-subj", "/CN=kubernetes", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(directory / "key.pem"), "-out", str(directory / "ca.crt")]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", *names, *files]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    (directory / "token").write_text("secret\n")
    return directory


@pytest.fixture(scope="module")
def api_port(account: Path) -> Iterator[int]:
    server = http.server.HTTPServer(("127.0.0.1", 0), KubernetesApi)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(account / "ca.crt", account / "key.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


def zone(machine: str, account: Path, port: int) -> tuple[str, str]:
    variables = {
        "SERVICE_ACCOUNT_DIR": str(account),
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": str(port),
    }
    done = subprocess.run(
        [sys.executable, str(DOCKER / "zone.py"), machine],
        env={**environment(None), **variables},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout, done.stderr


def test_the_rack_of_a_pod_is_the_zone_of_its_machine(account: Path, api_port: int) -> None:
    assert zone("machine-7", account, api_port) == ("eu-1b", "")


def test_a_zone_that_nobody_tells_is_said_and_is_no_reason_not_to_start(account: Path, api_port: int) -> None:
    found, complaint = zone("machine-8", account, api_port)
    assert found == ""
    assert "machine-8" in complaint
