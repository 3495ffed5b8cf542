import pytest

from ottla.config import BrokerConfig
from ottla.config.seeds import seed_names, split_seed
from ottla.errors import ConfigError


@pytest.mark.parametrize(
    ("seed", "place"),
    [
        ("a:1", ("a", 1)),
        ("Node-1.Example:7947", ("node-1.example", 7947)),
        ("10.0.0.7", ("10.0.0.7", 7946)),
        (" a:1 ", ("a", 1)),
        ("[::1]:7947", ("::1", 7947)),
        ("[FE80::1]", ("fe80::1", 7946)),
    ],
)
def test_a_seed_is_a_host_and_a_port(seed: str, place: tuple[str, int]) -> None:
    assert split_seed(seed) == place


@pytest.mark.parametrize(
    "seed", ["", ":1", "a:", "a:b", "a:0", "a:65536", "a:1:2", "::1", "[::1", "[::1]x", "a b:1", "/a:1"]
)
def test_anything_else_is_refused(seed: str) -> None:
    with pytest.raises(ConfigError, match=r"^seeds: .* it must be host:port"):
        split_seed(seed)


def test_the_same_seeds_are_the_same_however_they_are_written() -> None:
    assert seed_names(["b:7946", "A:1", "a:1", "[::1]"]) == seed_names(["[::1]:7946", "a:1", "B"])
    assert seed_names(["b:7946", "A:1"]) == ("a:1", "b:7946")


def test_a_node_checks_its_seeds_when_it_is_configured() -> None:
    with pytest.raises(ConfigError, match=r"^seeds: "):
        BrokerConfig(seeds=frozenset({"a:1", "nothing:at:all"}))
