"""All routes, with what they take and answer: FastAPI makes the OpenAPI document of it."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from starlette.exceptions import HTTPException

from ottla.errors import BrokerError
from ottla.http.api import Api
from ottla.http.docs_page import docs_page
from ottla.http.errors import BAD_REQUEST, METHOD_NOT_ALLOWED, NOT_FOUND, HttpError, of_broker
from ottla.http.routes import groups, operations, streams, topics
from ottla.http.routes.models import Problem

DESCRIPTION = """\
Topics, messages, consumer groups and the cluster itself, over HTTP. Any node answers for the whole cluster, and Kafka
clients see the same topics, messages and groups. An error is `{"error": {"code", "kafka_error", "message"}}`.
"""
PROBLEMS: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": Problem, "description": "The request can't be served as it is."},
    "5XX": {"model": Problem, "description": "The cluster can't serve it at the moment."},
}


def build(api: Api) -> FastAPI:
    app = FastAPI(
        title="Ottla",
        version=version("ottla"),
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        responses=PROBLEMS,
        redirect_slashes=False,
    )
    app.state.api = api
    for router in (topics.router, streams.router, groups.router, operations.router):
        app.include_router(router)
    app.add_exception_handler(HttpError, _refused)
    app.add_exception_handler(BrokerError, _broker_refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _not_served)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(docs_page(app.openapi()))

    return app


def _answer(error: HttpError) -> JSONResponse:
    return JSONResponse(error.body(), error.status, {"retry-after": "1"} if error.status in (429, 503) else None)


async def _refused(_: Request, error: Exception) -> JSONResponse:
    return _answer(error if isinstance(error, HttpError) else HttpError(500, "internal_error", str(error)))


async def _broker_refused(_: Request, error: Exception) -> JSONResponse:
    return _answer(of_broker(error) if isinstance(error, BrokerError) else HttpError(500, "internal_error", ""))


async def _invalid(_: Request, error: Exception) -> JSONResponse:
    wrong = error.errors() if isinstance(error, RequestValidationError) else []
    sentences = [f"{'.'.join(map(str, each['loc'][1:])) or each['loc'][0]}: {each['msg']}" for each in wrong]
    return _answer(HttpError(BAD_REQUEST, "bad_request", "; ".join(sentences) + "."))


async def _not_served(request: Request, error: Exception) -> JSONResponse:
    status = error.status_code if isinstance(error, HTTPException) else NOT_FOUND
    if status == METHOD_NOT_ALLOWED:
        return _answer(HttpError(status, "method_not_allowed", f"{request.url.path} does not take {request.method}."))
    if status == NOT_FOUND:
        return _answer(HttpError(status, "not_found", f"There is nothing at {request.url.path}."))
    return _answer(HttpError(status, "bad_request", "The request can't be read."))
