"""What the settings say of themselves: the text below each field, read from the source.

Python keeps no docstring for a field, so the source is parsed, once per class and only when somebody asks: to generate
`config/broker.yaml` and the configuration page, or to answer a client that wants documentation along with configs.
"""

import ast
import inspect
import textwrap
from collections.abc import Mapping
from typing import Any


def field_docs(cls: type[Any]) -> Mapping[str, str]:
    """The documentation of each field of a settings class, on one line."""
    if cls not in _PARSED:
        _PARSED[cls] = _parse(cls)
    return _PARSED[cls]


_PARSED: dict[type[Any], Mapping[str, str]] = {}


def _parse(cls: type[Any]) -> Mapping[str, str]:
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    if not isinstance(definition, ast.ClassDef):
        raise TypeError(f"{cls!r} is not a class")
    docs: dict[str, str] = {}
    for statement, following in zip(definition.body, definition.body[1:], strict=False):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            text = _text_of(following)
            if text is not None:
                docs[statement.target.id] = " ".join(text.split())
    return docs


def _text_of(statement: ast.stmt) -> str | None:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        value = statement.value.value
        return value if isinstance(value, str) else None
    return None
