"""The OpenAPI document as one page of plain HTML: nothing is loaded from anywhere, and no script runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

STYLE = """
:root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:0 auto;padding:1rem}
code,pre{font-family:ui-monospace,monospace;font-size:.9em}pre{overflow-x:auto;padding:.6rem;border:1px solid #8886;
border-radius:4px}details{border:1px solid #8886;border-radius:4px;margin:.4rem 0;padding:.4rem .7rem}
summary{cursor:pointer}b.m{display:inline-block;min-width:4.5rem}td,th{padding:.15rem .8rem .15rem 0;text-align:left;
vertical-align:top}
"""


def docs_page(openapi: Mapping[str, Any]) -> str:
    info = openapi["info"]
    title = f"{escape(info['title'])} {escape(info['version'])}: HTTP API"
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width,initial-scale=1"><style>{STYLE}</style></head><body>'
        f"<h1>{title}</h1><p>{escape(info.get('description', ''))}</p>"
        f'<p>The same for programs: <a href="openapi.json">openapi.json</a></p>'
        f"{''.join(_operations(openapi))}<h2>Bodies</h2>{''.join(_schemas(openapi))}</body></html>"
    )


def _operations(openapi: Mapping[str, Any]) -> Iterator[str]:
    tag = ""
    for path, methods in openapi["paths"].items():
        for method, operation in methods.items():
            named = (operation.get("tags") or ["other"])[0]
            if named != tag:
                tag = named
                yield f"<h2>{escape(tag)}</h2>"
            yield (
                f'<details><summary><b class="m">{method.upper()}</b> <code>{escape(path)}</code> '
                f"{escape(operation.get('summary', ''))}</summary>{_operation(operation)}</details>"
            )


def _operation(operation: Mapping[str, Any]) -> str:
    text = f"<p>{escape(operation.get('description', ''))}</p>"
    rows = "".join(
        f"<tr><td><code>{escape(each['name'])}</code></td><td>{each['in']}</td>"
        f"<td><code>{escape(_kind(each.get('schema', {})))}</code></td>"
        f"<td>{escape(each.get('description', ''))}</td></tr>"
        for each in operation.get("parameters", ())
    )
    if rows:
        text += f"<table>{rows}</table>"
    for content_type, body in operation.get("requestBody", {}).get("content", {}).items():
        text += f"<p>Body, {escape(content_type)}: <code>{escape(_kind(body.get('schema', {})))}</code></p>"
    answers = "".join(
        f"<tr><td><code>{escape(status)}</code></td><td>{escape(answer.get('description', ''))}</td></tr>"
        for status, answer in operation.get("responses", {}).items()
    )
    return f"{text}<table>{answers}</table>"


def _kind(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rsplit("/", 1)[-1]
    if "anyOf" in schema:
        return " or ".join(_kind(each) for each in schema["anyOf"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    return str(schema.get("type", "any"))


def _schemas(openapi: Mapping[str, Any]) -> Iterator[str]:
    for name, schema in sorted(openapi.get("components", {}).get("schemas", {}).items()):
        shown = escape(json.dumps(schema, indent=2))
        yield f"<details><summary><code>{escape(name)}</code></summary><pre>{shown}</pre></details>"
