"""Starting where something is in the way, and stopping in good order."""

import signal
import socket
import subprocess
from pathlib import Path

from tests.interop.confluent import Deliveries, fill, new_producer, read_all
from tests.interop.node_process import NodeProcess
from tests.interop.waiting import eventually
from tests.ports import free_port
from tests.robustness.raw_client import is_served


def test_a_taken_port_is_told_in_a_sentence(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        node = NodeProcess(tmp_path, port=port)
        code = node.launch().wait(20)

    assert code not in (0, None)
    assert str(port) in node.log()
    assert "Traceback" not in node.log()


def test_a_directory_in_use_is_told_in_a_sentence(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "one") as first:
        second = NodeProcess(tmp_path / "two")
        second.data_dir = first.data_dir
        code = second.launch().wait(20)

        assert code not in (0, None)
        assert str(first.data_dir) in second.log()
        assert "Traceback" not in second.log()
        assert is_served(first.bootstrap)


def test_the_lock_of_a_directory_dies_with_its_holder(node: NodeProcess) -> None:
    node.start()
    node.kill()

    with node:
        assert is_served(node.bootstrap)


def test_a_directory_that_can_not_be_written_is_told_in_a_sentence(tmp_path: Path) -> None:
    node = NodeProcess(tmp_path)
    node.data_dir.write_text("not a directory")

    code = node.launch().wait(20)

    assert code not in (0, None)
    assert "Traceback" not in node.log()


def test_records_and_topics_survive_a_stop(node: NodeProcess) -> None:
    with node:
        fill(node.bootstrap, "kept", 1000)
        assert node.stop() == 0
    with node:
        messages = read_all(node.bootstrap, "kept", 1000)
        fill(node.bootstrap, "kept", 5)

        assert [message.value() for message in messages] == [str(number).encode() for number in range(1000)]
        assert read_all(node.bootstrap, "kept", 1005)[-1].offset() == 1004


def test_no_recovery_is_needed_after_a_stop_and_one_is_after_a_kill(node: NodeProcess) -> None:
    with node:
        fill(node.bootstrap, "kept", 1000)
        assert node.stop() == 0
    after_stop = _log_of_start(node)
    node.kill()
    after_kill = _log_of_start(node)

    assert "recover" not in after_stop.lower()
    assert "recover" in after_kill.lower()


def _log_of_start(node: NodeProcess) -> str:
    node.log_file.write_text("")
    node.start()
    assert is_served(node.bootstrap)
    return node.log()


def test_a_stop_under_load_loses_nothing_and_has_nothing_sent_twice(node: NodeProcess) -> None:
    """By a client without sequence numbers: it sends again whatever it has no answer for."""
    deliveries = Deliveries()
    with node:
        producer = new_producer(node.bootstrap, linger_ms=0, reconnect_backoff_max_ms=200)
        for number in range(20_000):
            producer.produce("kept", str(number).encode(), partition=0, on_delivery=deliveries)
        eventually(lambda: producer.poll(0.01) and len(deliveries.delivered) > 1000)
        assert node.stop() == 0
    with node:
        assert producer.flush(30) == 0
        assert deliveries.errors == []
        fill(node.bootstrap, "kept", 1)
        stored = {message.offset(): message.value() for message in read_all(node.bootstrap, "kept", 20_001)}

    assert len(deliveries.delivered) == 20_000
    assert {message.offset(): message.value() for message in deliveries.delivered} | {20_000: b"0"} == stored


def test_interrupt_stops_like_terminate(node: NodeProcess) -> None:
    node.start()
    process = subprocess.Popen(["kill", f"-{int(signal.SIGINT)}", str(node.pid)])
    process.wait(5)

    eventually(lambda: not node.alive())
    assert "Traceback" not in node.log()


def test_waiting_clients_do_not_delay_a_stop(node: NodeProcess) -> None:
    """A consumer in a long poll and a connection in the middle of a frame."""
    with node:
        fill(node.bootstrap, "kept", 1)
        with socket.create_connection(("127.0.0.1", node.port)) as half:
            half.sendall(b"\0\0\1\0half")
            assert node.stop(within_s=5) == 0


def test_several_nodes_run_side_by_side(tmp_path: Path) -> None:
    ports = {free_port() for _ in range(3)}
    nodes = [NodeProcess(tmp_path / str(port), port=port) for port in ports]
    try:
        for one in nodes:
            one.start()
        assert all(is_served(one.bootstrap) for one in nodes)
    finally:
        for one in nodes:
            one.kill()
