"""A caller of a shard, for tests that play the runtime."""

from typing import Any

from ottla.replicated import Token


class Ticket(Token):
    """It must be answered once."""

    __slots__ = ("answers",)

    def __init__(self) -> None:
        self.answers: list[Any] = []

    @property
    def waits(self) -> bool:
        return not self.answers

    @property
    def answer(self) -> Any:
        assert len(self.answers) == 1, f"answered {len(self.answers)} times"
        return self.answers[0]
