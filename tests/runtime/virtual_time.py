"""Time that passes when a test says so."""

from typing import Any


class Clock:
    at_ms = 10_000

    def monotonic_ms(self) -> int:
        return self.at_ms

    def now_ms(self) -> int:
        return self.at_ms


class Timers:
    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.due: dict[Any, tuple[int, Any]] = {}

    def after_ms(self, delay_ms: float, action: Any) -> Any:
        timers = self

        class Alarm:
            def cancel(self) -> None:
                timers.due.pop(self, None)

        alarm = Alarm()
        self.due[alarm] = (self.clock.at_ms + int(delay_ms), action)
        return alarm

    def run_to(self, at_ms: int) -> int:
        """How many times the process was woken."""
        woken = 0
        while self.due and min(due_ms for due_ms, _ in self.due.values()) <= at_ms:
            alarm, (due_ms, action) = min(self.due.items(), key=lambda item: item[1][0])
            del self.due[alarm]
            self.clock.at_ms = max(self.clock.at_ms, due_ms)
            action()
            woken += 1
        self.clock.at_ms = at_ms
        return woken
