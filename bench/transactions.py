"""What transactions cost: those who write them, one after the other, and those who read a topic that is full of them.

A transaction here is ten records over three partitions. How often the disk is asked for one is counted by strace, in
a run of its own, since it makes everything slower; without strace that figure is left out.

A topic full of small transactions, one in five of them aborted, is read by readers of committed records and by readers
of everything in turns. The first get four fifths of the records, so it is the time for the whole topic that is
compared, and the broker's CPU time.
"""

import shutil
import signal
import statistics
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from bench.native import Measured, rdload, txnload
from bench.setting import Setting
from bench.topics import listed, new_topic

PARTITIONS = 3
RECORDS = 10
COUNT_SYNCS_S = 1.5
FILL_PARTITIONS = 6
FILL_PRODUCERS = 24
FILL_TRANSACTIONS = 16_000
FILL_RECORDS = 50
ABORT_EVERY = 5
READINGS = 7
_SYNC_CALLS = ("fsync", "fdatasync", "sync_file_range", "msync")


def one_after_the_other(at: Setting) -> Measured:
    server = at.server
    with new_topic(server, "transactions", PARTITIONS) as (topic, _):
        common: dict[str, object] = {
            "mode": "run",
            "bootstrap": server.bootstrap,
            "topic": topic,
            "pids": listed(server.pids),
        }
        common |= {"partitions": PARTITIONS, "records": RECORDS}
        measured = txnload(seconds=at.windows.seconds, warmup=at.windows.warmup_s, **common)
        if shutil.which("strace"):
            with _counting_syncs(server.pids) as syncs:
                done = txnload(seconds=COUNT_SYNCS_S, warmup=0, **common)["transactions"]
            measured["syncs"] = round(syncs[0] / done, 1)  # those of the background are a hundredth
    return measured


@contextmanager
def _counting_syncs(pids: Sequence[int]) -> Iterator[list[int]]:
    """How often these processes ask the disk to sync, as the one item of the list, afterwards."""
    with tempfile.NamedTemporaryFile("r") as summary:
        command = ["strace", "-f", "-c", "-o", summary.name, "-e", f"trace={','.join(_SYNC_CALLS)}"]
        for pid in pids:
            command += ["-p", str(pid)]
        tracer = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert tracer.stderr is not None
        for _ in pids:  # a line for each when it is attached to
            tracer.stderr.readline()
        counted: list[int] = []
        try:
            yield counted
        finally:
            tracer.send_signal(signal.SIGINT)
            tracer.communicate()
        rows = [line.split() for line in summary.read().splitlines()]
        counted.append(sum(int(row[3]) for row in rows if row and row[-1] in _SYNC_CALLS))


def read_committed(at: Setting) -> Measured:
    server = at.server
    transactions = int(FILL_TRANSACTIONS * at.windows.data_scale)
    with new_topic(server, "read-committed", FILL_PARTITIONS) as (topic, _):
        common: dict[str, object] = {"bootstrap": server.bootstrap, "topic": topic, "pids": listed(server.pids)}
        common["partitions"] = FILL_PARTITIONS
        filled = txnload(
            mode="fill",
            count=transactions,
            producers=FILL_PRODUCERS,
            records=FILL_RECORDS,
            abort_every=ABORT_EVERY,
            **common,
        )
        counts = {
            "read_committed": filled["committed"],
            "read_uncommitted": filled["committed"] + filled["aborted"],
        }
        read: dict[str, list[Measured]] = {isolation: [] for isolation in counts}
        for _ in range(READINGS):
            for isolation, count in counts.items():
                read[isolation].append(rdload(mode="consume", isolation=isolation, count=count, **common))
    committed, everything = read["read_committed"], read["read_uncommitted"]
    return {
        "rate": _median(everything, "records") / _median(committed, "seconds"),
        "rate_uncommitted": _median(everything, "rate"),
        "committed_time": _median(committed, "seconds") / _median(everything, "seconds"),
        "broker_cpu_us": _median(committed, "broker_cpu_s") * 1e6 / _median(everything, "records"),
        "broker_cpu_us_uncommitted": _median(everything, "broker_cpu_us"),
    }


def _median(readings: Sequence[Measured], figure: str) -> float:
    return statistics.median(float(reading[figure]) for reading in readings)
