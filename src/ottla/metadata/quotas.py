"""Which quota a client has, and how long it must wait when it has used more.

The most specific quota that is set wins; in Kafka's order: (user, client-id), (user, any client-id), user, then the
same three for any user, then client-id, then any client-id. What is counted together follows from it: a quota for a
user counts all of that user's clients, a quota for any client-id counts each client-id by itself.

A rate is measured as Kafka does, over `window_num` windows of `window_size_seconds`: the current one and those before
it, where time that has not passed yet counts as if it had, so that a client's first burst is not taken for its rate.
Over the quota, the client waits until the same bytes over the longer time would be within it.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ottla.config import QuotaConfig
from ottla.metadata.image import QuotaEntity, quota_entity

USER = "user"
CLIENT_ID = "client-id"
IP = "ip"

PRODUCER_BYTE_RATE = "producer_byte_rate"
CONSUMER_BYTE_RATE = "consumer_byte_rate"

ENFORCED = frozenset({PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE})
"""The quotas that can be set. One that nobody enforces is refused rather than stored."""

CLIENTS_MAX = 10_000
"""Clients and rates that are remembered; beyond it all that can be found again is forgotten."""

AllQuotas = Mapping[QuotaEntity, Mapping[str, float]]


class Share(NamedTuple):
    """A quota, and who uses it up together."""

    per_second: float
    used_by: QuotaEntity


def client_share(quotas: AllQuotas, key: str, user: str, client_id: str) -> Share | None:
    """The quota `key` of a client, if it has one."""
    for entity, used_by in _from_most_specific(user, client_id):
        per_second = quotas.get(entity, {}).get(key)
        if per_second is not None:
            return Share(per_second, used_by)
    return None


def _from_most_specific(user: str, client_id: str) -> Iterator[tuple[QuotaEntity, QuotaEntity]]:
    """Entities that may have a quota for this client, each with those who would share it."""
    both = quota_entity([(USER, user), (CLIENT_ID, client_id)])
    for user_name in (user, None):
        yield quota_entity([(USER, user_name), (CLIENT_ID, client_id)]), both
        yield quota_entity([(USER, user_name), (CLIENT_ID, None)]), both
        yield ((USER, user_name),), ((USER, user),)
    yield ((CLIENT_ID, client_id),), ((CLIENT_ID, client_id),)
    yield ((CLIENT_ID, None),), ((CLIENT_ID, client_id),)


class _Window:
    __slots__ = ("last_ms", "start_ms", "value")

    def __init__(self, now_ms: int) -> None:
        self.start_ms = self.last_ms = now_ms
        self.value = 0.0


class Rate:
    """How much was used lately."""

    __slots__ = ("_total", "_window_ms", "_window_num", "_windows")

    def __init__(self, config: QuotaConfig) -> None:
        self._window_ms = config.window_size_seconds * 1_000
        self._window_num = config.window_num
        self._windows: deque[_Window] = deque()
        self._total = 0.0

    def record(self, amount: float, per_second: float, now_ms: int) -> int:
        """Count `amount`; returns for how many ms its user should wait, 0 while it is within its quota."""
        self._add(amount, now_ms)
        self._forget_old(now_ms)
        return max(0, round(self._total * 1_000 / per_second - self._elapsed_ms(now_ms)))

    def _add(self, amount: float, now_ms: int) -> None:
        if not self._windows or now_ms - self._windows[-1].start_ms >= self._window_ms:
            self._windows.append(_Window(now_ms))
        window = self._windows[-1]
        window.value += amount
        window.last_ms = now_ms
        self._total += amount

    def _forget_old(self, now_ms: int) -> None:
        """A window counts as long as anything that happened in it is young enough."""
        while now_ms - self._windows[0].last_ms >= self._window_num * self._window_ms:
            self._total -= self._windows.popleft().value

    def _elapsed_ms(self, now_ms: int) -> int:
        elapsed_ms = now_ms - self._windows[0].start_ms
        missing = self._window_num - 1 - elapsed_ms // self._window_ms
        return max(1, elapsed_ms + max(0, missing) * self._window_ms)

    def is_idle(self, now_ms: int) -> bool:
        """Nothing that was recorded counts any more."""
        return not self._windows or now_ms - self._windows[-1].last_ms >= self._window_num * self._window_ms


class ClientRates:
    """The use that clients make of one kind of quota, on one broker."""

    def __init__(self, key: str, config: QuotaConfig) -> None:
        self._key = key
        self._config = config
        self._quotas: AllQuotas = {}
        self._shares: dict[tuple[str, str], Share | None] = {}
        self._rates: dict[QuotaEntity, Rate] = {}
        self._sweep_at_ms = 0
        self.is_active = False
        """False while nobody has a quota of this kind: then nothing needs to be recorded."""

    def update(self, quotas: AllQuotas) -> None:
        """The quotas have changed. What has been used stays counted."""
        self._quotas = quotas
        self._shares.clear()
        self.is_active = any(self._key in values for values in quotas.values())
        if not self.is_active:
            self._rates.clear()

    def record(self, user: str, client_id: str | None, size_bytes: float, now_ms: int) -> int:
        """Count what a client has sent or fetched; returns the throttle time in ms. A negative size takes it back."""
        if not self.is_active:
            return 0
        share = self._share(user, client_id or "")
        if share is None:
            return 0
        if now_ms >= self._sweep_at_ms:
            self._sweep(now_ms)
        rate = self._rates.get(share.used_by)
        if rate is None:
            rate = self._rates[share.used_by] = Rate(self._config)
        return rate.record(size_bytes, share.per_second, now_ms)

    def burst_bytes(self, user: str, client_id: str | None) -> int | None:
        """More than this at once is over the quota however long the client was idle; None: it has no quota."""
        share = self._share(user, client_id or "") if self.is_active else None
        if share is None:
            return None
        return int(share.per_second * (self._config.window_num - 1) * self._config.window_size_seconds)

    def _share(self, user: str, client_id: str) -> Share | None:
        client = (user, client_id)
        if client not in self._shares:
            if len(self._shares) >= CLIENTS_MAX:
                self._shares.clear()
            self._shares[client] = client_share(self._quotas, self._key, user, client_id)
        return self._shares[client]

    def _sweep(self, now_ms: int) -> None:
        """Forget rates that no longer say anything, so that clients that come and go cost no memory."""
        self._rates = {used_by: rate for used_by, rate in self._rates.items() if not rate.is_idle(now_ms)}
        self._sweep_at_ms = now_ms + self._config.window_num * self._config.window_size_seconds * 1_000
