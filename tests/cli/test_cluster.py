"""`ottla cluster`."""

from tests.cli.command import Ottla


def test_the_cluster_says_who_is_in_it(ottla: Ottla, topic: str) -> None:
    info = ottla("cluster", "info", "--json").json

    [broker] = info["brokers"]
    assert f"{broker['host']}:{broker['port']}" == ottla.bootstrap
    assert info["controller"] == broker["id"]
    assert info["topics"] >= 1
    assert len(info["cluster_id"]) == 22
    assert ottla("cluster", "info").lines[0].split() == ["cluster", info["cluster_id"]]
