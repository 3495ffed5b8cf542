"""The end of a transaction, as it is written into a partition."""

from __future__ import annotations

from typing import NamedTuple

from ottla.transactions.transaction import Producer


class Marker(NamedTuple):
    producer: Producer
    commits: bool
    coordinator_epoch: int
    """The leader epoch of the coordinator's partition: a coordinator that was replaced has a lower one."""
    version: int
    """Of transactions: from 2 on the marker's epoch is higher than that of any record that it ends."""
