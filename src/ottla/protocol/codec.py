"""Messages to bytes and back, one codec per message and version, compiled when it is first needed.

A broker decodes requests and encodes responses, a client does the opposite, so the two halves are compiled apart.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ottla.errors import ProtocolError
from ottla.ports import Bytes
from ottla.protocol.decoder import compile_decoder
from ottla.protocol.encoder import compile_encoder
from ottla.protocol.schema import Message, Versioned

AnyMessage = TypeVar("AnyMessage", bound=Message)
AnyVersioned = TypeVar("AnyVersioned", bound=Versioned)


class Codec(Generic[AnyVersioned]):
    """How one version of a message is read and written.

    `decode(buffer, at=0)` returns the message and where it ends; record data in it is a view into `buffer`.
    `encode(message, out)` appends pieces of bytes to `out`; record data is appended as it is, not copied.
    """

    __slots__ = ("cls", "decode", "encode", "version")

    if TYPE_CHECKING:
        decode: Callable[..., tuple[AnyVersioned, int]]
        encode: Callable[[AnyVersioned, list[Any]], None]

    def __init__(self, cls: type[AnyVersioned], version: int) -> None:
        self.cls = cls
        self.version = version

    def __getattr__(self, name: str) -> Any:
        """Called only while a slot is empty: compile what belongs into it."""
        compilers = {"decode": compile_decoder, "encode": compile_encoder}
        if name not in compilers:
            raise AttributeError(name)
        function = compilers[name](self.cls, self.version, self.version >= self.cls.flexible_from)
        setattr(self, name, function)
        return function


_codecs: dict[tuple[type[Versioned], int], Codec[Any]] = {}


def codec_for(cls: type[AnyVersioned], version: int) -> Codec[AnyVersioned]:
    codec = _codecs.get((cls, version))
    if codec is None:
        low, high = cls.versions
        if not low <= version <= high:
            raise ProtocolError(f"{cls.__name__} has versions {low} to {high}, not {version}")
        codec = _codecs[cls, version] = Codec(cls, version)
    return codec


def encode(message: Versioned, version: int) -> bytes:
    out: list[Bytes] = []
    codec_for(type(message), version).encode(message, out)
    return b"".join(out)


def decode(cls: type[AnyVersioned], version: int, buffer: Bytes) -> AnyVersioned:
    """The message that `buffer` holds, all of it and nothing else."""
    message, end = codec_for(cls, version).decode(buffer)
    if end != len(buffer):
        raise ProtocolError(f"{cls.__name__} v{version} ends {len(buffer) - end} bytes before its frame")
    return message
