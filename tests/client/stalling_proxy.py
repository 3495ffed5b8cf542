"""A proxy between clients and a node that can stop passing anything on, as a network or a broker that hangs does."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self


class StallingProxy:
    """Listens on a free port as soon as it is made; `target` may be set later, before the first client comes."""

    def __init__(self) -> None:
        self.target: tuple[str, int] | None = None
        self._loop = asyncio.new_event_loop()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._serve, "127.0.0.1", 0), self._loop
        ).result(10)
        self.port: int = self._server.sockets[0].getsockname()[1]

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def stall(self) -> None:
        """From now on nothing passes, in either direction; connections stay open."""
        self._call(self._flowing.clear)

    def flow(self) -> None:
        self._call(self._flowing.set)

    def cut(self) -> None:
        """End all connections at once. New ones are taken."""
        self._call(self._cancel_all)

    def _call(self, action: Callable[[], object]) -> None:
        async def run() -> None:
            action()

        asyncio.run_coroutine_threadsafe(run(), self._loop).result(10)

    def _cancel_all(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert self.target is not None
        try:
            there_reader, there_writer = await asyncio.open_connection(*self.target)
        except OSError:  # the node is gone
            writer.transport.abort()
            return
        both = {
            asyncio.ensure_future(self._pass_on(reader, there_writer)),
            asyncio.ensure_future(self._pass_on(there_reader, writer)),
        }
        self._tasks |= both
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        for task in both:
            task.cancel()
        await asyncio.wait(both)
        self._tasks -= both
        for end in (writer, there_writer):
            end.transport.abort()
            with suppress(ConnectionError):
                await end.wait_closed()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65_536):
                await self._flowing.wait()
                writer.write(data)
                await writer.drain()

    def close(self) -> None:
        async def end() -> None:
            self._server.close()
            self._cancel_all()
            while serving := asyncio.all_tasks() - {asyncio.current_task()}:
                await asyncio.wait(serving)

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
