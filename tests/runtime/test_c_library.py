"""What Python has no functions for is called, answers, and fails as the system says."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

import pytest

from ottla.runtime.c_library import address, c_function, system_call

GETPPID = {"x86_64": 110, "aarch64": 173}
GETRANDOM = {"x86_64": 318, "aarch64": 278}

NOT_KNOWN = os.strerror(errno.ENOSYS)

on_a_known_machine = pytest.mark.skipif(os.uname().machine not in GETPPID, reason="its calls have other numbers")


def test_a_function_returns_what_it_returns() -> None:
    assert c_function("getppid")() == os.getppid()


def test_numbers_over_32_bits_arrive_whole(tmp_path: Path) -> None:
    with open(tmp_path / "a", "w+b") as file:
        c_function("ftruncate", "c_int", "c_int64")(file.fileno(), 5 << 32)
        assert os.fstat(file.fileno()).st_size == 5 << 32


def test_one_that_fails_says_why() -> None:
    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
        c_function("syncfs", "c_int")(-1)


def test_a_function_that_there_is_none_of_fails_as_one_that_the_system_does_not_know() -> None:
    with pytest.raises(OSError, match=NOT_KNOWN):
        c_function("no_such_function", "c_int")(1)


@on_a_known_machine
def test_the_system_is_called_by_number() -> None:
    assert system_call(GETPPID) == os.getppid()


@on_a_known_machine
def test_a_call_fills_a_buffer() -> None:
    filled = bytearray(64)
    assert system_call(GETRANDOM, address(filled), len(filled), 0) == len(filled)
    assert any(filled)


def test_a_machine_whose_numbers_are_not_known_is_not_called() -> None:
    with pytest.raises(OSError, match=NOT_KNOWN):
        system_call({"vax": 1})


def test_other_systems_number_their_calls_otherwise_and_are_not_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(OSError, match=NOT_KNOWN):
        system_call(GETPPID)
