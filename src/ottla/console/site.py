"""What all pages share: the cluster, and what is looked at again and again."""

from __future__ import annotations

from ottla.console.letters import Letters
from ottla.console.source import Source
from ottla.console.watching import ClusterWatch, GroupsWatch
from ottla.http.api import Api


class Site:
    def __init__(self, api: Api, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.api = api
        self.source = Source(api)
        self.cluster = ClusterWatch(self.source)
        self.groups = GroupsWatch(self.source)
        self.letters = Letters(self.source, bootstrap)
