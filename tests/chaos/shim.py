"""A disk that is full or fails, and a clock that is wrong, under a node that knows nothing of it."""

import struct
import subprocess
from pathlib import Path

from tests.programs import require

SOURCE = Path(__file__).with_name("faults.c")
_FAULTS = struct.Struct("<iiq")


def build(directory: Path) -> Path:
    """The library that is loaded into nodes."""
    library = directory / "faults.so"
    subprocess.run([require("cc"), "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-ldl"], check=True)
    return library


class Faults:
    """What is wrong with one node's machine now. Takes effect at once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.write_bytes(_FAULTS.pack(0, 0, 0))

    def environment(self, library: Path) -> dict[str, str]:
        return {"LD_PRELOAD": str(library), "OTTLA_TEST_FAULTS": str(self._path)}

    def set(self, *, sync_fails: bool = False, disk_is_full: bool = False, clock_offset_s: int = 0) -> None:
        with open(self._path, "r+b", buffering=0) as file:
            file.write(_FAULTS.pack(sync_fails, disk_is_full, clock_offset_s))

    def heal(self) -> None:
        self.set()
