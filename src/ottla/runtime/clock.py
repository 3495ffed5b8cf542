"""The real clock and the real dice."""

import random
import time


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000


SystemRandom = random.SystemRandom
"""Cryptographic, since topic and cluster ids must not collide across nodes."""
