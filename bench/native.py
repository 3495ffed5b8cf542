"""Compiles and runs the load drivers in `native/`.

They are in C because a Python client would be the limit of every measurement. `rawload` and `httpload` need a C
compiler and nothing else; `rdload` and `txnload` are linked with the librdkafka that the confluent-kafka wheel brings
along.
"""

import importlib.util
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
BUILD = HERE / "build"
_SHARED = tuple(HERE / "native" / name for name in ("measure.h", "pool.h", "rdkafka_abi.h"))

_TOLD = 300
"""How much of a command line is told when it failed: the leaders of ten thousand partitions are a long list."""

Measured = dict[str, Any]


class DriverError(Exception):
    """A driver can't be built, or failed while it ran."""


def rawload(**options: object) -> Measured:
    return _run("rawload", options)


def rdload(**options: object) -> Measured:
    return _run("rdload", options)


def txnload(**options: object) -> Measured:
    return _run("txnload", options)


def httpload(**options: object) -> Measured:
    return _run("httpload", options)


def _run(name: str, options: dict[str, object]) -> Measured:
    arguments = [str(_built(name))]
    for option, value in options.items():
        arguments += [f"--{option.replace('_', '-')}", str(value)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise DriverError(f"{' '.join(arguments)[:_TOLD]}\n{done.stderr.strip()}")
    measured: Measured = json.loads(done.stdout)
    return measured


def _built(name: str) -> Path:
    source, binary = HERE / "native" / f"{name}.c", BUILD / name
    newest = max(path.stat().st_mtime for path in (source, *_SHARED))
    if not binary.exists() or binary.stat().st_mtime < newest:
        _compile(name, source, binary)
    return binary


def _compile(name: str, source: Path, binary: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise DriverError("the load drivers are in C: install a C compiler (gcc or clang) and try again")
    BUILD.mkdir(exist_ok=True)
    command = [compiler, "-O2", "-Wall", "-Wextra", "-o", str(binary), str(source), "-lpthread"]
    if name not in ("rawload", "httpload"):
        library = librdkafka()
        command += [str(library), f"-Wl,-rpath,{library.parent}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise DriverError(f"{' '.join(command)}\n{done.stderr.strip()}")


def librdkafka() -> Path:
    """The library inside the confluent-kafka wheel."""
    spec = importlib.util.find_spec("confluent_kafka")
    if spec is None or spec.origin is None:
        raise DriverError("confluent-kafka is not installed: run make install")
    site_packages = Path(spec.origin).parent.parent
    for library in sorted(site_packages.glob("confluent_kafka.libs/librdkafka*.so*")):
        return library
    raise DriverError("this build of confluent-kafka has no librdkafka of its own (it was not installed from a wheel)")
