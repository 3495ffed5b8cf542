"""Which names a topic may have: Kafka's rule, since a name is also part of a directory's name."""

import re

from ottla.errors import BrokerError, ErrorCode

NAME_LENGTH_MAX = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def is_valid_topic_name(name: str) -> bool:
    return _LEGAL.fullmatch(name) is not None and name not in (".", "..")


def require_valid(name: str) -> None:
    """INVALID_TOPIC_EXCEPTION says what is wrong with the name."""
    if not is_valid_topic_name(name):
        raise BrokerError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {_what_is_wrong(name)}")


def _what_is_wrong(name: str) -> str:
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > NAME_LENGTH_MAX:
        return f"it has {len(name)} characters, {NAME_LENGTH_MAX} are allowed"
    return f"'{name}' has characters other than ASCII letters and digits, '.', '_' and '-'"


def collision_key(name: str) -> str | None:
    """Names with the same key can't both exist: metrics write a '.' as '_'. None: this name collides with no other."""
    if "." in name or "_" in name:
        return name.replace(".", "_")
    return None
