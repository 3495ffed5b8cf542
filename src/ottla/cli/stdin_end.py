"""A server that ends with whoever started it, however that ended: by the end of its standard input.

A supervisor or a test that is killed can't stop what it has started. But the pipe that it holds is closed for it.
"""

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

FLAG = "--until-stdin-ends"
_STDIN = 0
_READ_BYTES = 4_096


def until_stdin_ends_option(command: Command) -> Command:
    return click.option(
        FLAG,
        is_flag=True,
        expose_value=False,
        callback=_begin,
        help="Stop when standard input ends, as it does when the process that holds the other end dies.",
    )(command)


def _begin(ctx: click.Context, _: click.Parameter, is_wanted: bool) -> None:
    if is_wanted and not ctx.resilient_parsing:
        threading.Thread(target=_wait, name="stdin", daemon=True).start()


def _wait() -> None:
    with suppress(OSError):  # there is none: that is an end too
        while os.read(_STDIN, _READ_BYTES):
            pass
    os.kill(os.getpid(), signal.SIGTERM)
