"""Compiles the loops over records when one of them is first called, and not before.

Numba takes half a second to load and to get ready, and most of Spark's Python processes (those that plan, and those
that commit) never run such a loop. The machine code is kept on disk, beside the module or where `NUMBA_CACHE_DIR`
says, so that a worker that starts does not compile anything. Numba goes by the file of the loop itself: after a change
of this file, remove the `__pycache__` beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

__all__ = ["compiled", "copy_bytes"]

Loop = TypeVar("Loop", bound=Callable[..., Any])


class _Later:
    """Stands for a compiled function until it is called, and calls it from then on."""

    def __init__(self, function: Callable[..., Any], make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        self._function = function
        self._make = make
        self._made: Callable[..., Any] | None = None
        self.__doc__ = function.__doc__

    def made(self) -> Callable[..., Any]:
        if self._made is None:
            self._put_in_what_it_calls()
            self._made = self._make(self._function)
        return self._made

    def _put_in_what_it_calls(self) -> None:
        """Numba looks names up in the module of the function, and must find functions of its own there."""
        names = self._function.__globals__
        for name in self._function.__code__.co_names:
            if isinstance(found := names.get(name), _Later):
                names[name] = found.made()

    def __call__(self, *arguments: Any) -> Any:
        return (self._made or self.made())(*arguments)


def compiled(function: Loop) -> Loop:
    """A decorator for loops over arrays of numbers."""
    return cast(Loop, _Later(function, _compile))


def _compile(function: Callable[..., Any]) -> Callable[..., Any]:
    import numba

    try:
        made: Callable[..., Any] = numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:  # there is no directory to keep it in
        made = numba.njit(nogil=True)(function)
    return made


def _compile_intrinsic(function: Callable[..., Any]) -> Callable[..., Any]:
    from numba.extending import intrinsic

    made: Callable[..., Any] = intrinsic(function)
    return made


def _copy_bytes(
    typing_context: Any, out: Any, out_at: Any, data: Any, data_at: Any, count: Any
) -> tuple[Any, Callable[..., Any]]:
    """`out[out_at : out_at + count] = data[data_at : data_at + count]`, unchecked, for `count` of 0 or more.

    The C library's copy: a loop over single bytes stays one, since an index might be negative, and takes three times as
    long as everything else for records of a kilobyte.
    """
    from numba.core import cgutils, types

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        def pointer(array: int, at: int) -> Any:
            found = context.make_array(signature.args[array])(context, builder, arguments[array])
            return builder.gep(found.data, [context.cast(builder, arguments[at], signature.args[at], types.intp)])

        size = context.cast(builder, arguments[4], signature.args[4], types.intp)
        cgutils.raw_memcpy(builder, pointer(0, 1), pointer(2, 3), size, 1)
        return context.get_dummy_value()

    return types.void(out, out_at, data, data_at, count), generate


copy_bytes: Final = _Later(_copy_bytes, _compile_intrinsic)
