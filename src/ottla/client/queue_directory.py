"""A queue in a directory, and who serves it.

One of the processes that opened the directory does: it holds the directory's lock and runs a node there, and the others
are its clients. The kernel frees the lock however that process ends; the others look every `WATCH_S`, and the one that
gets the lock starts a node on the same files **at the same address**. So the clients of all processes, this one's too,
only see a connection that breaks and comes back: librdkafka sends again what was not acknowledged, and its sequence
numbers keep the node from storing it twice.

For that the address belongs to the directory and not to a process. It is drawn once from the loopback network
(127.0.0.0/8, sixteen million hosts) and kept in the file `.queue`, so that no other program is found there while a node
is away.
"""

import fcntl
import os
import random
import threading
import time
from pathlib import Path

from ottla.client.errors import QueueUnavailableError
from ottla.client.librdkafka import logger
from ottla.client.queue_local import LocalWriter
from ottla.client.queue_target import QueueMode
from ottla.client.queue_writer import ProducerWriter, Writer
from ottla.config import GroupConfig
from ottla.embedded import EmbeddedNode
from ottla.errors import DirectoryLockedError, OttlaError, PortTakenError
from ottla.runtime.directory_lock import LOCK_FILE, lock_owner

ADDRESS_FILE = ".queue"
WATCH_S = 0.1
"""How often a process that does not serve looks whether it should."""
JOIN_RETRY_S = 0.02
PORT_PATIENCE_S = 1.0
"""How long an address may be taken while nobody holds the directory: another process may be about to lock it."""


class DirectoryPlace:
    """A directory that this process serves, or another one, until that ends."""

    mode = QueueMode.FILE

    def __init__(self, directory: Path, *, partitions: int, patience_s: float) -> None:
        self._directory = directory
        self._partitions = partitions
        self._node: EmbeddedNode | None = None
        self._stopping = threading.Event()
        directory.mkdir(parents=True, exist_ok=True)
        self.bootstrap_servers = self._enter(patience_s)
        self._watcher = threading.Thread(target=self._watch, name="ottla-queue", daemon=True)
        self._watcher.start()

    @property
    def hosting(self) -> bool:
        return self._node is not None

    def close(self) -> None:
        """Leave. A node that runs here is stopped first, cleanly, so that the next host need not recover."""
        self._stopping.set()
        self._watcher.join()
        node, self._node = self._node, None
        if node is not None:
            node.stop()

    def writer(self, topic: str, *, patience_s: float) -> Writer:
        node = self._node
        if node is not None:
            return LocalWriter(node, topic, patience_s=patience_s)
        return ProducerWriter(self.bootstrap_servers, topic, patience_s=patience_s)

    def _enter(self, patience_s: float) -> str:
        """Serve the directory, or find out who does. Returns the address."""
        started = time.monotonic()
        while (waited_s := time.monotonic() - started) <= patience_s:
            if not is_free(self._directory):
                owner = lock_owner(str(self._directory))
                if owner is not None and owner.address:
                    return owner.address
            elif self._try_to_host(directory_address(self._directory)):
                return directory_address(self._directory)
            elif waited_s > PORT_PATIENCE_S and is_free(self._directory):
                forget_address(self._directory)
            self._stopping.wait(JOIN_RETRY_S)
        raise QueueUnavailableError(f"{self._directory} is locked by a process that does not serve it")

    def _try_to_host(self, address: str) -> bool:
        """False: another process was quicker, or something listens at the address."""
        try:
            self._host(address)
        except (DirectoryLockedError, PortTakenError):
            return False
        return True

    def _host(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._node = EmbeddedNode(
            self._directory,
            port=int(port),
            address=host,
            num_partitions=self._partitions,
            groups=GroupConfig(group_initial_rebalance_delay_ms=0),  # a program's first consumer need not wait
        ).start()

    def _watch(self) -> None:
        while not self._stopping.wait(WATCH_S):
            if self._node is not None and not self._node.running:
                logger.error("the node of %s has stopped", self._directory)
                self._node = None
            if self._node is None and is_free(self._directory):
                self._take_over()

    def _take_over(self) -> None:
        try:
            if self._try_to_host(self.bootstrap_servers):
                logger.info("this process serves %s from now on", self._directory)
        except (OttlaError, OSError) as error:
            logger.error("%s has no host and can't be taken over: %s", self._directory, error)


def is_free(directory: Path) -> bool:
    """Whether nobody holds the lock of a data directory at this moment."""
    try:
        descriptor = os.open(directory / LOCK_FILE, os.O_RDONLY)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def directory_address(directory: Path) -> str:
    """The address that belongs to a directory; drawn when it is first asked for, by whichever process is first."""
    path = directory / ADDRESS_FILE
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        draft = directory / f"{ADDRESS_FILE}.{os.getpid()}.{threading.get_ident()}"
        draft.write_text(f"{draw_address()}\n")
        try:
            os.link(draft, path)  # unlike a rename, this leaves the file of a process that was quicker
        except FileExistsError:
            pass
        finally:
            draft.unlink()
        return path.read_text().strip()


def forget_address(directory: Path) -> None:
    """Some program listens there. Nobody serves the directory, so nobody can be connected: another one will do."""
    (directory / ADDRESS_FILE).unlink(missing_ok=True)


def draw_address() -> str:
    """Ports below those that the kernel gives to outgoing connections."""
    draw = random.SystemRandom().randint
    return f"127.{draw(1, 254)}.{draw(0, 255)}.{draw(1, 254)}:{draw(20_000, 32_000)}"
