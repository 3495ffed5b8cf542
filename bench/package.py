"""What is measured of Ottla: the package as a wheel has it, with its hot modules compiled (hatch_build.py).

It is built when a run begins and a source has changed since the last one, which takes two minutes. With OTTLA_PURE=1,
or where it can't be compiled, the sources are measured as they are.
"""

import compileall
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).parents[1]
_BUILT = _ROOT / "build" / "compiled"


@cache
def package() -> Path:
    """Where to import it from."""
    print("compiling what will be measured, if it has changed", file=sys.stderr, flush=True)
    subprocess.run([sys.executable, str(_ROOT / "hatch_build.py"), str(_BUILT)], check=True, stdout=sys.stderr)
    # As an installation does: Python may have been told to leave no bytecode behind.
    compileall.compile_dir(_BUILT / "ottla", quiet=1)
    return _BUILT


def form() -> str:
    """Which of its two forms was built last; of earlier results nothing is written, and they are pure."""
    try:
        return (_BUILT / "form").read_text().partition("\n")[0]
    except FileNotFoundError:
        return "pure Python"


def environment() -> dict[str, str]:
    """Of a process that runs it."""
    return {**os.environ, "PYTHONPATH": str(package())}
