"""`ottla up --console`, which is what `make run` runs."""

import re
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.cli.local_cluster import LocalCluster

ADDRESS = re.compile(r"console  (http://127\.0\.0\.1:\d+)  pid \d+  log ")


def test_the_console_is_started_and_stopped_with_the_nodes(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 1, "--console") as cluster:
        cluster.until(lambda: any(map(ADDRESS.match, cluster.lines)))
        [url] = [found[1] for found in map(ADDRESS.match, cluster.lines) if found]
        with urlopen(url, timeout=60) as answer:
            assert "<title>Cluster · Ottla</title>" in answer.read().decode()
        with pytest.raises(HTTPError, match="403") as refused:
            urlopen(Request(url, headers={"Host": "evil.example"}), timeout=60)
        refused.value.close()
        assert cluster.stop() == 0
        assert "Traceback" not in (cluster.data_dir / "console.log").read_text()
