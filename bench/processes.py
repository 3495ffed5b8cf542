"""What the system tells about a server process: CPU time, memory, and how to stop it for good."""

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_CPU_CLOCK_OF_PROCESS = 2
"""How Linux numbers the clock of another process, in nanoseconds; /proc/PID/stat counts in hundredths of a second."""
_COMPILERS = ("C1 CompilerThre", "C2 CompilerThre")
"""Names of a JVM's threads, as far as the system keeps them."""
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def cpu_s(pid: int) -> float:
    """User and system time of all threads of a process, those that ended included."""
    return time.clock_gettime(~pid << 3 | _CPU_CLOCK_OF_PROCESS)


def family_cpu_s(pid: int) -> float:
    """The same, with that of the processes that it started and that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / _TICKS_PER_SECOND


def compiler_cpu_s(pid: int) -> float:
    """Of this, what those threads took in which a JVM compiles its code, without those that it has ended."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # it has ended meanwhile
            name, _, fields = (task / "stat").read_text().partition("(")[2].rpartition(")")
            if name.startswith(_COMPILERS):
                total += sum(map(int, fields.split()[11:13]))
    return total / _TICKS_PER_SECOND


def tree_cpu_s(pid: int) -> float:
    """The same, with that of the processes that it started, that these started, and so on."""
    total_s = family_cpu_s(pid)
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # one of them has ended meanwhile
            total_s += sum(tree_cpu_s(int(child)) for child in (task / "children").read_text().split())
    return total_s


def family_rss_mb(pid: int) -> float:
    """Resident memory of a process and of those that it started, as far as they are still there."""
    total_mb = rss_mb(pid)
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):
            total_mb += sum(rss_mb(int(child)) for child in (task / "children").read_text().split())
    return total_mb


def rss_mb(pid: int) -> float:
    """Resident memory in megabytes (10^6 bytes)."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES / 1e6


def stop(process: subprocess.Popen[bytes], *, within_s: float = 30) -> None:
    """Ask a process to stop, and end it if it doesn't."""
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGCONT)
    process.terminate()
    try:
        process.wait(within_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
