"""Tables, fields and JSON where no terminal is there."""

import json

import pytest

from ottla.cli.output import note, print_changes, print_fields, print_json, print_table, progress


def test_a_table_in_a_pipe_is_aligned_text(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["name", "count", "ok"], [("a", 5, True), ("long", 1000, None)])

    assert capsys.readouterr().out.splitlines() == [
        "NAME  COUNT  OK",
        "a         5  yes",
        "long   1000  -",
    ]


def test_an_empty_table_says_so_where_no_program_reads_it(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["name"], [], empty="None.")

    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "None.\n")


def test_a_cell_can_not_send_escape_codes(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["group"], [("a\x1b[2J\n",)])

    assert capsys.readouterr().out.splitlines()[1] == r"a\x1b[2J\n"


def test_fields_are_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    print_fields({"a": 1, "long": None})

    assert capsys.readouterr().out == "a     1\nlong  -\n"


def test_json_in_a_pipe_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": [1, {"b": None}]})

    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert json.loads(out) == {"a": [1, {"b": None}]}


def test_changes_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    print_changes({"topic": "t", "set": {"a": "1", "b": "2"}, "unset": ["c"]}, as_json=False)

    assert capsys.readouterr().out.splitlines() == ["topic  t", "set    a=1, b=2", "unset  c"]


def test_notes_and_progress_stay_off_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    note("hello")
    with progress("work", 10) as show:
        show(5)

    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "hello\n")
