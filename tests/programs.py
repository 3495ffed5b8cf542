"""The programs that tests run beside Ottla or build it with, and Debian's packages that bring them.

`make test` begins with `python -m tests.programs`, which installs what is missing where that is possible: by root, on
Debian and its kin. A test whose program is missing all the same is skipped, and says so.
"""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import sys
import sysconfig

import pytest

PACKAGES = {
    "Python.h": "python3-dev",
    "cc": "gcc libc6-dev",
    "chromium": "chromium",
    "curl": "curl",
    "initdb": "postgresql",
    "ip": "iproute2",
    "java": "default-jre-headless",
    "prometheus": "prometheus",
    "systemd-analyze": "systemd",
    "unshare": "util-linux",
}
ALSO = {"cc": "gcc", "chromium": "chromium-browser"}
"""Other names of the same."""
OUT_OF_THE_WAY = ("/usr/lib/postgresql/*/bin",)
"""Where packages put programs that a shell does not find."""
INSTALLED_WITHIN_S = 900


def find(program: str) -> str | None:
    """Where it is; of several versions the last."""
    if program == "java" and "JAVA_HOME" in os.environ:
        return shutil.which("java", path=os.path.join(os.environ["JAVA_HOME"], "bin")) or shutil.which("java")
    if program == "Python.h":
        header = os.path.join(sysconfig.get_path("include"), program)
        return header if os.path.exists(header) else None
    places = [place for pattern in OUT_OF_THE_WAY for place in sorted(glob.glob(pattern), reverse=True)]
    for name in (program, ALSO.get(program, program)):
        if found := shutil.which(name) or shutil.which(name, path=os.pathsep.join(places)):
            return found
    return None


def require(program: str) -> str:
    """Where it is; without it the test is skipped."""
    found = find(program)
    if found is None:
        pytest.skip(missing(program))
    return found


def needs(program: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(find(program) is None, reason=missing(program))


def missing(program: str) -> str:
    return f"{program} is not here, and can't be installed: apt-get install {PACKAGES[program]}"


def install() -> None:
    """All that are missing. What can't be had is told, and is no error."""
    wanted = [program for program in PACKAGES if find(program) is None]
    if not wanted:
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        print(f"tests that run {', '.join(wanted)} will be skipped: only root can install them, with apt-get")
        return
    variables = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    _run(["apt-get", "update"], variables)
    for program in wanted:  # one by one: a package that is not there keeps no other away
        print(f"installing {PACKAGES[program]}", flush=True)
        command = ["apt-get", "install", "--yes", "--no-install-recommends", *PACKAGES[program].split()]
        said = _run(command, variables)
        if find(program) is None:
            print(f"{missing(program)}\n{said}", file=sys.stderr)


def _run(command: list[str], variables: dict[str, str]) -> str:
    """What it said."""
    done = subprocess.run(
        command, env=variables, check=False, text=True, timeout=INSTALLED_WITHIN_S,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    return done.stdout


if __name__ == "__main__":
    install()
