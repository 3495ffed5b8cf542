"""A broker that goes away in the middle."""

import signal
import subprocess
from pathlib import Path

from tests.cli.command import Ottla
from tests.interop.node_process import NodeProcess


def test_produce_says_how_much_was_acknowledged(tmp_path: Path) -> None:
    node = NodeProcess(tmp_path)
    ottla = Ottla(node.bootstrap)
    with node:
        ottla("topic", "create", "t")
        with ottla.running("produce", "t", "--timeout", "2s", stdin=subprocess.PIPE) as process:
            assert process.stdin is not None
            process.stdin.write(b"kept\n")
            process.stdin.flush()
            assert ottla("consume", "t", "--follow", "--max", "1").lines == ["kept"]
            node.kill()

            _, stderr = process.communicate(b"lost\n", timeout=30)

    assert process.returncode == 6
    assert b"1 record to t" in stderr
    assert b"No broker answered" in stderr
    assert b"Traceback" not in stderr


def test_follow_waits_for_it_to_come_back(tmp_path: Path) -> None:
    node = NodeProcess(tmp_path)
    ottla = Ottla(node.bootstrap)
    with node:
        ottla("produce", "t", stdin="before\n")
        with ottla.running("consume", "t", "--follow") as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline() == b"before\n"
            node.stop()
            assert b"still trying" in process.stderr.readline()
            node.start()
            ottla("produce", "t", stdin="after\n")
            assert process.stdout.readline() == b"after\n"
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=20)

    assert process.returncode == 130
