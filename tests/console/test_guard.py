import pytest

from ottla.console.guard import is_allowed, is_loopback


def scope(host: str, origin: str | None = None, kind: str = "http") -> dict[str, object]:
    headers = [(b"host", host.encode())] + ([(b"origin", origin.encode())] if origin else [])
    return {"type": kind, "headers": headers}


@pytest.mark.parametrize("host", ["localhost:8090", "127.0.0.1", "127.0.0.1:8090", "[::1]:8090", "LOCALHOST"])
def test_the_loopback_has_many_names(host: str) -> None:
    assert is_allowed(scope(host), loopback_only=True)


@pytest.mark.parametrize("host", ["evil.example:8090", "10.0.0.1:8090", "", "localhost.evil.example"])
def test_others_are_refused_where_only_this_machine_is_served(host: str) -> None:
    assert not is_allowed(scope(host), loopback_only=True)
    assert is_allowed(scope(host), loopback_only=False)


def test_a_websocket_must_come_from_the_console_itself() -> None:
    own = scope("localhost:8090", "http://localhost:8090", "websocket")
    other = scope("localhost:8090", "http://evil.example", "websocket")

    assert is_allowed(own, loopback_only=True)
    assert not is_allowed(other, loopback_only=True)
    assert not is_allowed(other, loopback_only=False)


def test_names_are_no_addresses() -> None:
    assert not is_loopback("example.org")
