"""`ottla start`: settings, signals, and what it says when it can't."""

import json
import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from tests.cli.command import SCRIPT, Ottla, environment
from tests.interop.node_process import NodeProcess


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    with NodeProcess(tmp_path) as node:
        os.kill(node.pid, number)
        assert node.stop() == 0
        assert "Traceback" not in node.log()


def test_it_ends_with_its_standard_input_if_it_is_told_to(tmp_path: Path) -> None:
    command = [SCRIPT, "start", "--port", "0", "--no-http", "--cluster-port", "none", "--until-stdin-ends"]
    command += ["--data-dir", str(tmp_path / "data")]
    with subprocess.Popen(
        command,
        env=environment(None),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("what is said is of no matter\n")
        process.stdin.flush()
        assert any("serves on" in line for line in process.stdout)
        assert process.poll() is None
        process.stdin.close()
        said = process.stdout.read()
        assert process.wait(60) == 0
    assert "has stopped" in said


def test_a_port_that_is_taken_is_exit_code_3(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])

        refused = Ottla()("start", "--port", port, "--data-dir", str(tmp_path / "data"), code=3)

    assert port in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_an_address_of_another_machine_is_exit_code_3(tmp_path: Path) -> None:
    """203.0.113.0/24 is for documentation: nobody has it."""
    refused = Ottla()("start", "--address", "203.0.113.9", "--data-dir", str(tmp_path / "data"), code=3)

    assert "203.0.113.9" in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_a_directory_that_is_in_use_is_exit_code_4(tmp_path: Path) -> None:
    with NodeProcess(tmp_path) as node:
        refused = Ottla()("start", "--port", "0", "--data-dir", str(node.data_dir), code=4)

    assert f"in use by process {node.pid}" in refused.stderr
    assert node.bootstrap in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_a_directory_that_can_not_be_made_is_exit_code_5(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    refused = Ottla()("start", "--port", "0", "--data-dir", str(tmp_path / "file" / "data"), code=5)

    assert "Not a directory" in refused.stderr
    assert refused.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "variables", "named"),
    [
        (["--port", "many"], {}, "command line: port"),
        (["--set", "colour=red"], {}, "colour"),
        (["--durability", "perhaps"], {}, "durability"),
        (["--config", "/nowhere.yaml"], {}, "/nowhere.yaml"),
        ([], {"OTTLA_PORT": "70000"}, "OTTLA_PORT"),
        (["--address", "0.0.0.0"], {}, "advertised_address"),
        (["--port", "1", "--set", "port=2"], {}, "given twice"),
    ],
)
def test_a_setting_that_can_not_be_used_is_exit_code_2(
    tmp_path: Path, arguments: list[str], variables: dict[str, str], named: str
) -> None:
    refused = Ottla()("start", "--data-dir", str(tmp_path / "data"), *arguments, code=2, **variables)

    assert named in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert not (tmp_path / "data").exists()


def test_flags_overrule_the_environment_which_overrules_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "broker.yaml"
    config.write_text("node_id: 7\nrack: from-file\nnum_partitions: 3\n")
    monkeypatch.setenv("OTTLA_RACK", "from-environment")
    monkeypatch.setenv("OTTLA_NUM_PARTITIONS", "4")

    with NodeProcess(tmp_path, "--config", str(config), "--set", "num_partitions=5") as node:
        ottla = Ottla(node.bootstrap)
        [broker] = ottla("cluster", "info", "--json").json["brokers"]
        assert (broker["id"], broker["rack"]) == (7, "from-environment")
        ottla("topic", "create", "t")
        assert ottla("topic", "list", "--json").json[0]["partitions"] == 5


def test_json_logs_are_one_object_a_line(tmp_path: Path) -> None:
    with NodeProcess(tmp_path, "--log-format", "json", "--log-level", "debug") as node:
        Ottla(node.bootstrap)("cluster", "info")
        node.stop()

        entries = [json.loads(line) for line in node.log().splitlines()]

    assert entries
    assert all(entry.keys() >= {"time", "level", "logger", "message"} for entry in entries)


def test_a_warning_level_silences_the_rest(tmp_path: Path) -> None:
    with NodeProcess(tmp_path, "--log-level", "warning") as node:
        node.stop()
        assert node.log() == ""


def test_records_survive_a_clean_restart(tmp_path: Path) -> None:
    with NodeProcess(tmp_path) as node:
        ottla = Ottla(node.bootstrap)
        ottla("produce", "t", stdin="kept\n")
        node.stop()
        node.start()
        assert ottla("consume", "t").lines == ["kept"]


def test_bench_finds_a_local_node_by_itself(tmp_path: Path) -> None:
    with NodeProcess(tmp_path) as node:
        report = Ottla(node.bootstrap)(
            "bench", "produce", "--records", "1000", "--data-dir", str(node.data_dir), "--json"
        ).json

    assert report["settings"]["broker_pid"] == node.pid
    assert report["results"][0]["broker_rss_mb"] > 10


def test_nothing_is_written_to_standard_output(tmp_path: Path) -> None:
    node = NodeProcess(tmp_path)
    with Ottla().running("start", "--port", str(node.port), "--data-dir", str(node.data_dir)) as command:
        assert command.stderr is not None
        while b"serves on" not in command.stderr.readline():
            assert command.poll() is None

        command.send_signal(signal.SIGTERM)
        stdout, _ = command.communicate(timeout=20)

    assert (command.returncode, stdout) == (0, b"")


def test_without_a_cluster_port_the_node_goes_without_one_if_the_usual_one_is_taken(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "first") as first, NodeProcess(tmp_path / "second") as second:
        told = [node for node in (first, second) if "no other node can join this one" in node.log()]

        assert second in told
        assert all(node.log().count("7946") == 1 for node in told)


def test_a_cluster_port_that_is_taken_is_exit_code_3(tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", 0))
        port = str(other.getsockname()[1])

        refused = Ottla()("start", "--port", "0", "--cluster-port", port, "--data-dir", str(tmp_path / "data"), code=3)

    assert f"UDP port {port}" in refused.stderr
    assert refused.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--seeds", "a:b"], "seeds"),
        (["--seeds", "a:1,b:2", "--cluster-port", "none"], "cluster_port"),
        (["--cluster-port", "70000"], "cluster_port"),
    ],
)
def test_seeds_that_can_not_be_used_are_exit_code_2(tmp_path: Path, arguments: list[str], named: str) -> None:
    refused = Ottla()("start", "--port", "0", "--data-dir", str(tmp_path / "data"), *arguments, code=2)

    assert named in refused.stderr
    assert refused.stderr.count("\n") == 1
