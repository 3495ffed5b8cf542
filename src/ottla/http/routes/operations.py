"""The cluster, health and metrics: for those who run it."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, PlainTextResponse

from ottla.http.routes.models import api_of

router = APIRouter(tags=["operations"])

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@router.get("/health", responses={503: {"description": "It is alive, but not ready: `why` says what is missing."}})
async def health(request: Request) -> JSONResponse:
    """Whether the process lives, whether it can serve, and if not, why."""
    found = await api_of(request).health()
    return JSONResponse(found, 200 if found["ready"] else 503)


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(request: Request) -> PlainTextResponse:
    """Figures for Prometheus."""
    return PlainTextResponse(await api_of(request).metrics(), media_type=METRICS_TYPE)
