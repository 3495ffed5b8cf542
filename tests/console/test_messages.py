import pytest

from ottla.console.messages import as_text, coloured, hex_dump, message_rows, pretty, preview
from ottla.console.searching import Seen


def seen(value: bytes | None, *, whole: int | None = None) -> Seen:
    return Seen(
        topic="orders",
        partition=1,
        offset=7,
        timestamp_ms=1_700_000_000_000,
        key=b"user-1",
        value=value,
        headers=(("trace", b"af01"), ("none", None)),
        value_bytes=len(value or b"") if whole is None else whole,
    )


def test_json_is_set_out_in_lines() -> None:
    shown = pretty(b'{"a":1,"b":[true,null,"x"]}')

    assert shown.count("\n") == 7
    assert '<span class="j-key">&quot;a&quot;</span>: <span class="j-num">1</span>' in shown
    assert '<span class="j-word">true</span>' in shown


def test_what_only_looks_like_json_is_text() -> None:
    assert pretty(b"{not json") == '<pre class="value">{not json</pre>'


def test_a_cut_value_is_not_taken_for_json() -> None:
    assert "j-key" not in pretty(b'{"a":1}', is_whole=False)


def test_markup_in_a_value_is_text() -> None:
    shown = message_rows([seen(b'{"html":"<img src=x onerror=alert(1)>"}')])

    assert "<img" not in shown
    assert "&lt;img" in shown


def test_binary_is_shown_as_bytes() -> None:
    assert as_text(b"\xff\xfe\x00") is None
    assert "ff fe 00" in pretty(b"\xff\xfe\x00")
    assert preview(b"\x00\x01") == '<span class="hex">00 01</span>'


def test_a_character_cut_in_two_at_the_end_is_left_off() -> None:
    assert as_text("Siřem".encode()[:3]) == "Si"


def test_null_is_not_empty() -> None:
    assert "null" in pretty(None)
    assert pretty(b"") == '<pre class="value"></pre>'


def test_a_dump_shows_offsets_bytes_and_letters() -> None:
    assert hex_dump(b"Ottla\x00") == "000000  4f 74 74 6c 61 00" + " " * 32 + "Ottla·"


@pytest.mark.parametrize("text", ['{"a": "b: \\"c\\""}', "[1.5e-3, -2]", '"only"'])
def test_colours_change_no_text(text: str) -> None:
    import html
    import re

    assert html.unescape(re.sub(r"<[^>]+>", "", coloured(text))) == text


def test_a_large_value_says_how_much_of_it_is_shown() -> None:
    assert "The first 8.0 KiB of 1.0 MiB" in message_rows([seen(b"x" * 16_384, whole=1_048_576)])
