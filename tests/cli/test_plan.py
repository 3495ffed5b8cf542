"""`ottla plan`."""

from tests.cli.command import Ottla


def test_it_shows_brokers_partitions_storage_and_network_and_where_its_figures_are_from() -> None:
    shown = Ottla()("plan", "--messages", "50000", "--size", "1KB", "--retention", "7d")

    assert shown.lines[0] == "Brokers      28 (disk room (bytes) decides)"
    assert [line.split()[0] for line in shown.lines[:7]] == [
        "Brokers", "Partitions", "Storage", "Disk", "Network", "CPU", "Memory",
    ]  # fmt: skip
    assert "docs/BENCHMARKS.md" in shown.stderr


def test_json_is_the_same_in_numbers() -> None:
    found = Ottla()("plan", "--messages", "1000", "--size", "100", "--retention", "1d", "--json").json

    assert found["brokers"] == 3
    assert {need["what"] for need in found["needs"]} >= {"CPU (cores)", "disk room (bytes)"}
    assert found["stored_bytes"] > 1000 * 100 * 86_400 * 3


def test_what_is_needed_must_be_said() -> None:
    assert "--retention" in Ottla()("plan", "--messages", "1", "--size", "1", code=2).stderr
