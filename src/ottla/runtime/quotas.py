"""The byte rates of this node's clients, and the quotas that the metadata sets for them."""

from __future__ import annotations

from ottla.config import QuotaConfig
from ottla.metadata.image import MetadataImage
from ottla.metadata.quotas import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE, ClientRates

USER_PREFIX = "User:"


class NodeQuotas:
    def __init__(self, config: QuotaConfig) -> None:
        self._produce = ClientRates(PRODUCER_BYTE_RATE, config)
        self._fetch = ClientRates(CONSUMER_BYTE_RATE, config)
        self.active = False

    def update(self, image: MetadataImage) -> None:
        self._produce.update(image.client_quotas)
        self._fetch.update(image.client_quotas)
        self.active = self._produce.is_active or self._fetch.is_active

    def produced(self, principal: str, client_id: str | None, size_bytes: int, now_ms: int) -> int:
        return self._produce.record(principal.removeprefix(USER_PREFIX), client_id, size_bytes, now_ms)

    def fetched(self, principal: str, client_id: str | None, size_bytes: int, now_ms: int) -> int:
        return self._fetch.record(principal.removeprefix(USER_PREFIX), client_id, size_bytes, now_ms)
