"""Which seeds a test runs: a few by default, `SEEDS=1000` for more, `FIRST_SEED=7 SEEDS=1` for one that failed."""

import os


def seeds(default: int) -> range:
    first = int(os.environ.get("FIRST_SEED", "0"))
    return range(first, first + int(os.environ.get("SEEDS", default)))
