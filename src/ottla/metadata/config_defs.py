"""A config as Kafka's clients know it: its name, its type, which texts it takes, and what it means.

Every config is a setting of `ottla.config` under Kafka's name. Limits, defaults and documentation come from there;
here are the texts that travel in requests and are kept in the metadata log.
"""

import re
from dataclasses import MISSING
from enum import IntEnum, StrEnum
from typing import Any, NoReturn

from ottla.config.docs import field_docs
from ottla.config.names import Setting
from ottla.config.settings import within
from ottla.config.units import INT32_MAX, INT64_MAX
from ottla.errors import BrokerError, ErrorCode
from ottla.values import value

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")


class ConfigType(IntEnum):
    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


class ConfigSource(IntEnum):
    """Where a value comes from; of several, the lowest number wins."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


@value
class ConfigDef:
    name: str
    """Kafka's name; `ottla.` before the setting's path where Kafka has nothing like it."""
    type: ConfigType
    setting: Setting
    read_only: bool
    """Can't be changed while the node runs."""

    @property
    def default(self) -> Any:
        assert self.setting.field.default is not MISSING  # sections are no settings, all others have one
        return self.setting.field.default

    @property
    def documentation(self) -> str:
        return field_docs(self.setting.owner).get(self.setting.field.name, "")

    def parse(self, text: str) -> Any:
        """The value that `text` means. INVALID_CONFIG says what would do."""
        match self.type:
            case ConfigType.BOOLEAN:
                return self._boolean(text)
            case ConfigType.INT | ConfigType.LONG | ConfigType.DOUBLE:
                return self._number(text)
            case ConfigType.LIST:
                return frozenset(self._choice(part, ("compact", "delete")) for part in split_list(text))
            case ConfigType.STRING:
                return self._text(text)

    def _boolean(self, text: str) -> bool:
        word = text.strip().lower()
        if word not in ("true", "false"):
            self._refuse(text, "Expected value to be either true or false")
        return word == "true"

    def _number(self, text: str) -> float:
        value = _float(text) if self.type is ConfigType.DOUBLE else _integer(text)
        if value is None:
            self._refuse(text, f"Not a number of type {self.type.name}")
        field = self.setting.field
        if not within(field, value):
            low, high = field.metadata["at_least"], field.metadata["at_most"]
            too_low = low is not None and value < low
            self._refuse(text, f"Value must be at least {low}" if too_low else f"Value must be no more than {high}")
        return value

    def _text(self, text: str) -> str:
        wanted: Any = self.setting.field.type
        if isinstance(wanted, type) and issubclass(wanted, StrEnum):
            return wanted(self._choice(text, tuple(wanted)))
        return text

    def _choice(self, text: str, choices: tuple[str, ...]) -> str:
        if text not in choices:
            self._refuse(text, f"String must be one of: {', '.join(choices)}")
        return text

    def _refuse(self, text: str, reason: str) -> NoReturn:
        raise BrokerError(ErrorCode.INVALID_CONFIG, f"Invalid value {text} for configuration {self.name}: {reason}")


def define(name: str, setting: Setting, *, read_only: bool) -> ConfigDef:
    return ConfigDef(name=name, type=_type_of(setting), setting=setting, read_only=read_only)


def _type_of(setting: Setting) -> ConfigType:
    wanted: Any = setting.field.type
    if wanted is bool:
        return ConfigType.BOOLEAN
    if wanted is float:
        return ConfigType.DOUBLE
    if wanted in (int, int | None):
        high = setting.field.metadata.get("at_most")
        return ConfigType.INT if high is not None and high <= INT32_MAX else ConfigType.LONG
    if wanted == frozenset[str]:
        return ConfigType.LIST
    return ConfigType.STRING


def to_text(value: Any) -> str | None:
    """As Kafka writes a value; None for one that is not set."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, frozenset):
        return ",".join(sorted(value))
    return str(value)


def _integer(text: str) -> int | None:
    """What fits into 64 bits; Python itself would take more, and underscores too."""
    value = int(text) if _INTEGER.fullmatch(text.strip()) else None
    return value if value is not None and -INT64_MAX <= value <= INT64_MAX else None


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def split_list(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
