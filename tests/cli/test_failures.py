"""What users are told, and with which exit code."""

import errno

import pytest

from ottla.cli.failures import CommandError, ExitCode, explain, report
from ottla.client.errors import GroupNotEmptyError, RefusedError, TimedOutError, TopicNotFoundError, UnreachableError
from ottla.errors import ConfigError, DirectoryLockedError, DiskFailedError, InvariantError


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (CommandError("no", exit_code=ExitCode.USAGE), ExitCode.USAGE, "no"),
        (ConfigError("port: bad"), ExitCode.USAGE, "port: bad"),
        (DirectoryLockedError("in use"), ExitCode.DIRECTORY_LOCKED, "in use"),
        (DiskFailedError("sync failed"), ExitCode.DISK_FAILED, "sync failed"),
        (UnreachableError("refused"), ExitCode.UNREACHABLE, "No broker answered: refused"),
        (TimedOutError("late"), ExitCode.UNREACHABLE, "No broker answered: late"),
        (RefusedError("creating: no"), ExitCode.FAILED, "Creating: no"),
        (InvariantError("impossible"), ExitCode.FAILED, "Impossible"),
        (OSError(errno.ENOSPC, "No space left on device", "x"), ExitCode.DISK_FAILED, "No space left on device (x)"),
        (PermissionError(errno.EACCES, "Permission denied", "f"), ExitCode.FAILED, "Permission denied (f)"),
    ],
)
def test_expected_errors(error: Exception, code: ExitCode, said: str) -> None:
    failure = explain(error)

    assert failure is not None
    assert (failure.exit_code, failure.sentence) == (code, said)


def test_a_bug_keeps_its_traceback() -> None:
    assert explain(KeyError("x")) is None


@pytest.mark.parametrize(
    ("error", "hint"), [(TopicNotFoundError("x"), "ottla topic list"), (GroupNotEmptyError("x"), "Stop its members")]
)
def test_hints_say_what_to_do(error: Exception, hint: str) -> None:
    failure = explain(error)

    assert failure is not None
    assert hint in failure.hint


def test_a_failure_is_one_printable_line(capsys: pytest.CaptureFixture[str]) -> None:
    code = report(CommandError("bad\nname \x1b[2J", hint="Choose another."))

    captured = capsys.readouterr()
    assert code == ExitCode.FAILED
    assert captured.out == ""
    assert captured.err == "ottla: bad\\nname \\x1b[2J. Choose another.\n"
