"""How well this node itself is doing: one that is slow must not take others for dead.

Lifeguard's local health: a node that gets no answers although others should have helped, or that had to say that it
is alive, is probably the one with the problem. It then probes less often and waits longer, up to nine times.
"""

SCORE_MAX = 8


class Health:
    """0: all is well."""

    __slots__ = ("score",)

    def __init__(self) -> None:
        self.score = 0

    def better(self) -> None:
        self.score = max(0, self.score - 1)

    def worse(self, by: int = 1) -> None:
        self.score = min(SCORE_MAX, self.score + by)

    def scaled(self, duration_ms: int) -> int:
        return duration_ms * (1 + self.score)
