"""Building a wheel compiles the modules that every request goes through, with mypyc: the same source, as a C extension.

Which modules those are stands in pyproject.toml, what it gives in docs/decisions/0040-compiled.md. A wheel stays pure
Python where there is no C compiler, or where OTTLA_PURE=1 asks for it; it then does the same, for more CPU. What
`pip install --editable` makes is always pure: there the source is what runs.

`python hatch_build.py DIRECTORY` puts the package as a wheel has it into a directory, for PYTHONPATH: benchmarks and
tests run it there (`make compiled`). It does nothing where no source has changed since the last time.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent
SOURCE = ROOT / "src"
PACKAGES = ("ottla", "pyspark_ottla")
GROUP = "ottla"
"""All modules share one library, which is named after it: calls between them are calls in C."""
PURE = "OTTLA_PURE"
FORM = "form"
"""In a directory that was built: which form it has, and of what it was made."""
_MYPY_OPTIONS = ("--config-file=", "--ignore-missing-imports", "--follow-imports=silent", "--python-version=3.11")
"""Types were checked before (`make types`). What is not installed where a wheel is built is of any type."""


def modules() -> list[str]:
    """Paths below `src`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    listed: list[str] = project["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]["modules"]
    return [f"ottla/{path}" for path in listed]


def why_not() -> str:
    """Why the wheel stays pure Python; empty if it does not."""
    if os.environ.get(PURE, "0") not in ("", "0"):
        return f"{PURE} is set"
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        return f"there is no C compiler ({compiler})"
    header = Path(sysconfig.get_path("include")) / "Python.h"
    return "" if header.is_file() else f"there is no {header} (python3-dev)"


def compile_into(directory: Path) -> list[Path]:
    """The libraries, in `directory` as they are to lie beside the sources. Returns their paths below it."""
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, str(Path(__file__).resolve()), "--libraries", str(directory), scratch]
        subprocess.run(command, check=True, cwd=SOURCE)
    return sorted(path.relative_to(directory) for path in directory.rglob(f"*{sysconfig.get_config_var('EXT_SUFFIX')}"))


def _build_libraries(directory: str, scratch: str) -> None:
    """In a process of its own, as mypyc and setuptools go by the working directory."""
    from mypyc.build import mypycify
    from setuptools import Distribution
    from setuptools.command.build_ext import build_ext

    options = [*_MYPY_OPTIONS, f"--cache-dir={scratch}/mypy"]
    extensions = mypycify([*options, *modules()], group_name=GROUP, target_dir=scratch, debug_level="0")
    command = build_ext(Distribution({"name": GROUP, "ext_modules": extensions}))
    command.build_lib, command.build_temp = directory, scratch
    command.ensure_finalized()
    command.run()


def build(directory: Path) -> None:
    """The package as a wheel would have it, unless it is there already."""
    reason = why_not()
    form = "pure Python" if reason else "compiled"
    told = f"{form}\n{_digest_of_sources()}\n"
    if reason:
        print(f"not compiled: {reason}", file=sys.stderr)
    if (directory / FORM).is_file() and (directory / FORM).read_text() == told:
        return
    if directory.exists():
        shutil.rmtree(directory)
    for package in PACKAGES:
        shutil.copytree(SOURCE / package, directory / package, ignore=shutil.ignore_patterns("__pycache__"))
    if not reason:
        compile_into(directory.resolve())
    (directory / FORM).write_text(told)


def _digest_of_sources() -> str:
    digest = hashlib.sha256(sys.version.encode())
    files = [path for package in PACKAGES for path in sorted((SOURCE / package).rglob("*")) if path.is_file()]
    sources = [path for path in files if "__pycache__" not in path.parts]
    for path in (Path(__file__), ROOT / "pyproject.toml", *sources):
        digest.update(f"{path.relative_to(ROOT)} {path.stat().st_size} ".encode() + path.read_bytes())
    return digest.hexdigest()


if __name__ == "__main__":
    if sys.argv[1] == "--libraries":
        _build_libraries(*sys.argv[2:])
    else:
        build(Path(sys.argv[1]))
else:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface

    class CompiledModules(BuildHookInterface[Any]):
        """Adds the libraries to a wheel."""

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            if version == "editable":
                return
            reason = why_not()
            if reason:
                self.app.display_warning(f"ottla is built as pure Python: {reason}")
                return
            self._libraries = Path(tempfile.mkdtemp())
            for path in compile_into(self._libraries):
                build_data["force_include"][str(self._libraries / path)] = str(path)
            build_data["pure_python"] = False
            build_data["infer_tag"] = True

        def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
            libraries = getattr(self, "_libraries", None)
            if libraries is not None:
                shutil.rmtree(libraries)
