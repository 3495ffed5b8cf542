"""Topics that a command needs: made if they are not there."""

import time
from collections.abc import Iterable

from ottla.cli.connection import admin
from ottla.cli.output import note
from ottla.client.cluster import NewTopic
from ottla.client.errors import ClientError

MADE_WITHIN_S = 60.0
TRY_EVERY_S = 0.2


def make_topics(bootstrap: str, names: Iterable[str], partitions: int) -> None:
    """Where a cluster has just started, its controller may still change: then once more."""
    deadline = time.monotonic() + MADE_WITHIN_S
    with admin(bootstrap) as opened:
        while missing := sorted(set(names) - {topic.name for topic in opened.list_topics()}):
            try:
                opened.create_topics([NewTopic(name=topic, partitions=partitions) for topic in missing])
                note(f"made with {partitions} partitions: {', '.join(missing)}")
            except ClientError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(TRY_EVERY_S)
