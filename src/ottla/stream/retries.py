"""How long to wait before the next attempt: twice as long each time, up to a bound, and never the same for all."""

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    attempts: int = 5
    """How often a record is tried before it is a dead letter."""
    backoff_ms: int = 100
    backoff_max_ms: int = 10_000

    def wait_ms(self, failed: int) -> float:
        """After so many failed attempts. Between half and all of it, so that many programs don't come at once."""
        longest: float = min(self.backoff_ms * 2.0 ** min(failed - 1, 62), self.backoff_max_ms)
        return longest * random.uniform(0.5, 1.0)
