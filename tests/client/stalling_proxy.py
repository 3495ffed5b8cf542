"""A proxy between clients and a node that can stop passing anything on, as a network or a broker that hangs does."""

import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self


class StallingProxy:
    """Listens on a free port as soon as it is made; `target` may be set later, before the first client comes."""

    def __init__(self) -> None:
        self.target: tuple[str, int] | None = None
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._flowing = threading.Event()
        self._flowing.set()
        self._lock = threading.Lock()
        self._pairs: list[_Pair] = []
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def stall(self) -> None:
        """From now on nothing passes, in either direction; connections stay open."""
        self._flowing.clear()

    def flow(self) -> None:
        self._flowing.set()

    def cut(self) -> None:
        """End all connections at once. New ones are taken."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            pair.cut()
        for pair in pairs:
            pair.join()

    def _accept(self) -> None:
        with suppress(OSError):  # the listener was shut down
            while True:
                here, _ = self._listener.accept()
                self._connect(here)

    def _connect(self, here: socket.socket) -> None:
        if self.target is None:  # a client of another time, whose node had this port
            here.close()
            return
        try:
            there = socket.create_connection(self.target)
        except OSError:  # the node is gone
            here.close()
            return
        with self._lock:
            self._pairs.append(_Pair(here, there, self._flowing))

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._accepting.join(10)
        self._listener.close()
        self.flow()
        self.cut()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class _Pair:
    """A client's connection and the one to the node, with a thread for each direction."""

    def __init__(self, here: socket.socket, there: socket.socket, flowing: threading.Event) -> None:
        self._sockets = (here, there)
        self._flowing = flowing
        self._threads = [
            threading.Thread(target=self._pass_on, args=ends, daemon=True) for ends in ((here, there), (there, here))
        ]
        for thread in self._threads:
            thread.start()

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                self._flowing.wait()
                sink.sendall(data)
        self.cut()

    def cut(self) -> None:
        for end in self._sockets:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def join(self) -> None:
        for thread in self._threads:
            thread.join(10)
        for end in self._sockets:
            end.close()
