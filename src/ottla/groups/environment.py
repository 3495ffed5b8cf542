"""What every group of a shard shares."""

from ottla.config import GroupConfig
from ottla.groups.timers import Timers
from ottla.ports import Random
from ottla.values import value


@value
class Environment:
    config: GroupConfig
    random: Random
    timers: Timers

    def new_member_id(self, prefix: str) -> str:
        """As Kafka makes them: the client's or the instance's name, and a random UUID."""
        raw = bytearray(self.random.randbytes(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        digits = raw.hex()
        return f"{prefix}-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
