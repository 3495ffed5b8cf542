"""Servers under test are the ones that were started, and nobody else."""

from pathlib import Path

import pytest
from bench.servers import make_server
from bench.topics import new_topic


def test_a_server_that_ends_at_once_is_not_waited_for(tmp_path: Path) -> None:
    server = make_server("false {port} {dir}", tmp_path / "server")

    with pytest.raises(TimeoutError, match="the server ended"):
        server.start()
    server.stop()


def test_ports_are_not_those_that_the_system_hands_out(tmp_path: Path) -> None:
    first_ephemeral = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    server = make_server("ottla-os", tmp_path / "server")
    server.start()
    port = server.port
    server.stop()

    assert port + 1 < first_ephemeral


def test_a_server_comes_back_with_its_data(tmp_path: Path) -> None:
    server = make_server("ottla-os", tmp_path / "server")
    server.start()
    before = server.pids
    server.kill()
    server.start_again()

    assert server.pids != before
    assert (tmp_path / "server" / "data-0").is_dir()
    server.stop()
    assert not (tmp_path / "server").exists()


def test_a_node_for_each_core_means_that_they_share_the_partitions_of_a_topic(tmp_path: Path) -> None:
    server = make_server("ottla-2", tmp_path / "server")
    server.start()
    try:
        with new_topic(server, "shared", 6) as (_, leaders):
            assert sorted(map(leaders.count, server.ports)) == [3, 3]
    finally:
        server.stop()
