"""What a command says and which code it exits with when it can't do what was asked.

A traceback is for a bug of ours. Everything that a user can cause or cure becomes one sentence and a hint.
"""

import errno
from enum import IntEnum

import click

from ottla.errors import ConfigError, DirectoryLockedError, OttlaError, PortTakenError, StorageError
from ottla.observability.logs import printable


class ExitCode(IntEnum):
    """What scripts may rely on; the table in `--help` and docs/CLI.md is made from it."""

    OK = 0
    FAILED = 1
    USAGE = 2
    PORT_TAKEN = 3
    DIRECTORY_LOCKED = 4
    DISK_FAILED = 5
    UNREACHABLE = 6
    INTERRUPTED = 130
    BROKEN_PIPE = 141


MEANINGS = {
    ExitCode.OK: "done",
    ExitCode.FAILED: "the broker refused, or a check found problems",
    ExitCode.USAGE: "wrong usage, or a setting that can't be used",
    ExitCode.PORT_TAKEN: "start: the address or port can't be bound",
    ExitCode.DIRECTORY_LOCKED: "another process owns the data directory (start, log verify)",
    ExitCode.DISK_FAILED: "start: the disk failed",
    ExitCode.UNREACHABLE: "no broker answered in time",
    ExitCode.INTERRUPTED: "stopped with Ctrl-C",
    ExitCode.BROKEN_PIPE: "whoever read the output has gone",
}


class CommandError(Exception):
    """A command can't go on. `sentence` says what happened, `hint` what to do about it."""

    def __init__(self, sentence: str, *, hint: str = "", exit_code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.hint = hint
        self.exit_code = exit_code


def explain(error: BaseException) -> CommandError | None:
    """The failure that `error` means to a user; None if it is a bug, which deserves its traceback."""
    match error:
        case CommandError():
            return error
        case ConfigError():
            return CommandError(str(error), exit_code=ExitCode.USAGE)
        case DirectoryLockedError():
            return CommandError(str(error), exit_code=ExitCode.DIRECTORY_LOCKED)
        case PortTakenError():
            return CommandError(_as_sentence(str(error)), exit_code=ExitCode.PORT_TAKEN)
        case StorageError():
            return CommandError(str(error), exit_code=ExitCode.DISK_FAILED)
        case OttlaError():
            return _explain_ottla_error(error)
        case OSError() if error.errno is not None:
            return _explain_os_error(error)
    return None


def report(failure: CommandError) -> ExitCode:
    """Print it as one line on standard error."""
    sentence = printable(failure.sentence.strip())
    hint = f" {printable(failure.hint)}" if failure.hint else ""
    click.echo(f"ottla: {sentence if sentence.endswith(('.', '?', '!')) else sentence + '.'}{hint}", err=True)
    return failure.exit_code


def _explain_os_error(error: OSError) -> CommandError:
    disk_errors = (errno.EIO, errno.ENOSPC, errno.EROFS, errno.EDQUOT)
    where = f" ({error.filename})" if error.filename else ""
    exit_code = ExitCode.DISK_FAILED if error.errno in disk_errors else ExitCode.FAILED
    return CommandError(f"{error.strerror}{where}", exit_code=exit_code)


_HINTS = {
    "TopicNotFoundError": "`ottla topic list` shows what there is.",
    "TopicExistsError": "--if-not-exists makes that no error.",
    "GroupNotFoundError": "`ottla group list` shows what there is.",
    "GroupNotEmptyError": "Stop its members first; `ottla group describe` shows them.",
}
_UNREACHABLE = frozenset(("UnreachableError", "TimedOutError"))


def _explain_ottla_error(error: OttlaError) -> CommandError:
    """The client's errors go by name: importing them here would make `start` load the client."""
    names = [kind.__name__ for kind in type(error).__mro__]
    if not _UNREACHABLE.isdisjoint(names):
        return unreachable_failure(str(error))
    hint = next((_HINTS[name] for name in names if name in _HINTS), "")
    return CommandError(_as_sentence(str(error) or names[0]), hint=hint)


def _as_sentence(text: str) -> str:
    return text[0].upper() + text[1:]


def unreachable_failure(reason: str) -> CommandError:
    return CommandError(
        f"No broker answered: {reason}",
        hint="Is it running? Start one with `ottla start`, or name another with --bootstrap HOST:PORT.",
        exit_code=ExitCode.UNREACHABLE,
    )
