"""Several processes on one directory, some of which are killed."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import ottla
from ottla.client.queue import Enqueued, Queue
from tests.client.waiting import eventually

HOST = """
import sys, ottla
queue = ottla.open(sys.argv[1])
print("hosting" if queue.hosting else "joined", flush=True)
sys.stdin.readline()
queue.close()
"""

FORKING_HOST = """
import os, sys, ottla
queue = ottla.open(sys.argv[1])
if os.fork() == 0:
    sys.stdin.readline()
    os._exit(0)
print("hosting", flush=True)
sys.stdin.readline()
"""

WORKER = """
import json, sys, ottla
directory, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
queue = ottla.open(directory)
print("ready", flush=True)
sys.stdin.readline()
written = [queue.enqueue(name, f"{name} {number}") for number in range(count)]
print(json.dumps(written), flush=True)
"""


class Program:
    """A process that prints a line when it is ready and goes on when it is given one."""

    def __init__(self, text: str, *arguments: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", text, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        """Only this process, with no time to do anything, and not its children."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def end(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()


@pytest.fixture
def programs() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def start(programs: ExitStack, text: str, *arguments: object) -> Program:
    program = Program(text, *arguments)
    programs.callback(program.end)
    return program


def contents(queue: Queue, count: int) -> dict[Enqueued, str]:
    """Everything that is in the queue; fails if there are fewer than `count`, finds out if there are more."""
    found: dict[Enqueued, str] = {}
    with queue.consumer("checker") as consumer:
        while messages := consumer.poll(10_000 if len(found) < count else 300):
            found.update({Enqueued(message.partition, message.offset): message.text() for message in messages})
    return found


def test_a_host_that_is_killed_is_replaced_and_nothing_acknowledged_is_lost_or_doubled(
    tmp_path: Path, programs: ExitStack
) -> None:
    host = start(programs, HOST, tmp_path)
    assert host.line() == "hosting"
    written: dict[Enqueued, str] = {}
    enough, killed = threading.Event(), threading.Event()

    with ottla.open(tmp_path) as queue:
        assert not queue.hosting

        def enqueue_through_it_all() -> None:
            number = 0
            while number < 200 or not killed.is_set() or number < after_kill + 200:
                text = f"message {number}"
                written[queue.enqueue(f"client-{number % 10}", text)] = text
                number += 1
                if number == 100:
                    enough.set()

        after_kill = 0
        thread = threading.Thread(target=enqueue_through_it_all)
        thread.start()
        assert enough.wait(30)
        host.kill()
        after_kill = len(written)
        killed.set()
        thread.join(60)

        assert not thread.is_alive()
        assert queue.hosting
        assert contents(queue, len(written)) == written


def test_one_of_several_takes_over_and_the_others_go_on_with_it(tmp_path: Path, programs: ExitStack) -> None:
    host = start(programs, HOST, tmp_path)
    assert host.line() == "hosting"
    workers = [start(programs, WORKER, tmp_path, f"worker-{number}", 200) for number in range(3)]
    assert [worker.line() for worker in workers] == ["ready"] * 3

    for worker in workers:
        worker.go_on()
    host.kill()
    written = [tuple(place) for worker in workers for place in json.loads(worker.line())]
    for worker in workers:
        assert worker.process.wait(30) == 0

    assert len(set(written)) == 600
    with ottla.open(tmp_path) as queue:
        assert sorted(contents(queue, 600)) == sorted(written)


def test_a_host_that_leaves_in_order_is_replaced_at_once(tmp_path: Path, programs: ExitStack) -> None:
    host = start(programs, HOST, tmp_path)
    assert host.line() == "hosting"
    with ottla.open(tmp_path) as queue:
        queue.enqueue("a", "before")
        host.go_on()
        assert host.process.wait(30) == 0

        assert queue.enqueue("a", "after").offset == 1
        assert queue.hosting


def test_consumers_of_several_processes_go_on_over_a_change_of_hosts(tmp_path: Path, programs: ExitStack) -> None:
    host = start(programs, HOST, tmp_path)
    assert host.line() == "hosting"
    with ottla.open(tmp_path) as queue, queue.consumer("readers") as consumer:
        queue.enqueue_many(("a", str(number)) for number in range(100))
        seen = [int(message.data) for message in eventually(lambda: consumer.poll(1_000, max_records=40))]
        host.kill()
        queue.enqueue_many(("a", str(number)) for number in range(100, 200))
        while len(seen) < 200:
            seen += [int(message.data) for message in eventually(lambda: consumer.poll(1_000), timeout_s=60)]

    assert seen == list(range(200))


def test_a_child_that_the_host_forked_does_not_hold_the_queue_when_the_host_is_killed(
    tmp_path: Path, programs: ExitStack
) -> None:
    host = start(programs, FORKING_HOST, tmp_path)
    assert host.line() == "hosting"
    with ottla.open(tmp_path, patience_s=20) as queue:
        assert not queue.hosting
        queue.enqueue("a", "before")

        host.kill()

        assert queue.enqueue("a", "after").offset == 1
        assert queue.hosting


def test_a_program_that_ends_without_closing_leaves_everything_on_disk(tmp_path: Path) -> None:
    program = """
import sys, ottla
queue = ottla.open(sys.argv[1])
for number in range(1000):
    queue.enqueue_nowait("a", str(number))
"""
    subprocess.run([sys.executable, "-c", program, tmp_path], check=True, timeout=60)

    with ottla.open(tmp_path) as queue:
        assert len(contents(queue, 1_000)) == 1_000


def test_in_a_forked_process_a_queue_refuses_until_it_is_opened_there(tmp_path: Path) -> None:
    program = """
import os, sys, ottla
from ottla.client.errors import ClosedError
queue = ottla.open(sys.argv[1])
queue.enqueue("a", "parent")
child = os.fork()
if child == 0:
    try:
        queue.enqueue("a", "inherited")
    except ClosedError as error:
        assert "fork" in str(error)
    with ottla.open(sys.argv[1]) as own:
        assert not own.hosting
        own.enqueue("a", "child")
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert queue.enqueue("a", "parent again").offset == 2
"""
    subprocess.run([sys.executable, "-c", program, tmp_path], check=True, timeout=60)

    with ottla.open(tmp_path) as queue:
        assert list(contents(queue, 3).values()) == ["parent", "child", "parent again"]
