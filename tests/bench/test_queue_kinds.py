"""The queues that are compared do the same: what is put in comes out once, in this process or in another."""

from pathlib import Path

import pytest
from bench.queue_kinds import KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_put_in_is_read_once_after_it_was_opened_again(kind: str, tmp_path: Path) -> None:
    writer = KINDS[kind](tmp_path / "queue")
    writer.put(b"one")
    writer.put_many([b"two", b"three"])
    writer.close()

    reader = KINDS[kind](tmp_path / "queue")
    read = 0
    for count in reader.read():
        read += count
        if read == 3:
            break
    reader.close()

    assert read == 3
