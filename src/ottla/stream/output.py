"""What a function made of a record, as records to be written.

None                    nothing: the record is done
an Output               that record
bytes, str, a dict …    a record with this value and the key of the one it was made of
a list, a generator     several of these, or none
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ottla.client.message import Message
from ottla.client.serialization import Serializer, serialized, to_bytes

OUTPUT_BYTES_MAX = 1_000_000
"""Of one record: brokers refuse more by default, and a record that is refused would be refused again for ever."""


class Reject(Exception):  # noqa: N818  # it is an order, not an error
    """To be raised by a function for a record that no further attempt will help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A record to be written. Without a topic: to the one that `process` was told."""

    value: Any = None
    key: Any = None
    headers: tuple[tuple[str, bytes | str | None], ...] = ()
    topic: str | None = None
    partition: int | None = None
    timestamp_ms: int | None = None


def outputs_of(result: Any, message: Message) -> Iterator[Output]:
    if result is None:
        return
    if isinstance(result, Output):
        yield result
    elif isinstance(result, list | tuple | Iterator):
        for one in result:
            yield from outputs_of(one, message)
    else:
        yield Output(value=result, key=message.key)


def in_bytes(output: Output, serializer: Serializer | None, topic: str | None) -> Output:
    """Serialized here, so that what can't be is the function's failure; Reject if it could never be written."""
    goes_to = output.topic or topic
    if goes_to is None:
        raise Reject("the function returned a record, and there is no topic to write it to")
    value = serialized(serializer or to_bytes, output.value, "value")
    key = serialized(to_bytes, output.key, "key")
    made = Output(
        value=value,
        key=key,
        headers=output.headers,
        topic=goes_to,
        partition=output.partition,
        timestamp_ms=output.timestamp_ms,
    )
    if size_of(made) > OUTPUT_BYTES_MAX:
        raise Reject(f"the function returned a record of {size_of(made)} bytes; {OUTPUT_BYTES_MAX} is the most")
    return made


def size_of(output: Output) -> int:
    headers = sum(len(name) + len(value or b"") for name, value in output.headers)
    return len(output.value or b"") + len(output.key or b"") + headers
