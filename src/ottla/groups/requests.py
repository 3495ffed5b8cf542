"""What a member asks of its group, free of the wire's versions."""

from collections.abc import Mapping

from ottla.groups.roster import Protocols
from ottla.replicated import Token
from ottla.values import value


@value
class Join:
    """A member's wish to be in the next generation."""

    token: Token
    api_version: int
    client_id: str
    client_host: str
    member_id: str
    instance_id: str | None
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    reason: str


@value
class Sync:
    """A member's wish to know its assignment; the leader's sync holds everybody's."""

    token: Token
    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None
    protocol: str | None
    assignments: Mapping[str, bytes]
