import pytest

from ottla.storage import names


def test_a_name_has_twenty_digits() -> None:
    assert names.file_name(42, names.LOG) == "00000000000000000042.log"


def test_the_offset_comes_back_from_the_name() -> None:
    assert names.offset_in_name("00000000000000000042.timeindex", names.TIME_INDEX) == 42


@pytest.mark.parametrize(
    "name",
    [
        "42.log",
        "00000000000000000042.log.deleted",
        "0000000000000000004x.log",
        "00000000000000000042.index",
        ".log",
        "",
    ],
)
def test_other_names_have_no_offset(name: str) -> None:
    assert names.offset_in_name(name, names.LOG) is None
