"""The cluster, health and metrics: for those who run it."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Request
from fastapi.responses import JSONResponse, PlainTextResponse
from pydantic import BaseModel, Field

from ottla.http.routes.models import INT32_MAX, Open, Strict, api_of

router = APIRouter(tags=["operations"])

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Health(BaseModel):
    live: bool
    ready: bool
    why: list[str] = Field(description="Why it is not ready; empty if it is.")
    node_id: int | None = Field(description="None of a gateway.")


class Rebalance(Strict):
    at_once: int = Field(default=10, ge=1, le=1_000, description="Partitions on their way at a time.")


NOT_READY: dict[int | str, dict[str, Any]] = {503: {"model": Health, "description": "It is alive, but not ready."}}


@router.get("/cluster/status")
async def cluster_status(request: Request) -> Open:
    """Brokers, racks, controller, quorum, and partitions that lack something."""
    return await api_of(request).admin.status()


@router.get("/admin/assignment-plan")
async def assignment_plan(request: Request) -> Open:
    """Which partitions would move, where to and why. Nothing is changed."""
    return await api_of(request).admin.plan()


@router.post("/admin/rebalance", status_code=202)
async def rebalance(request: Request, asked: Annotated[Rebalance | None, Body()] = None) -> Open:
    """Start what the plan says, some at a time, and let preferred replicas lead; call it again to go on."""
    return await api_of(request).admin.rebalance((asked or Rebalance()).at_once)


@router.post("/admin/brokers/{broker}/decommission", status_code=202)
async def decommission(request: Request, broker: Annotated[int, Path(ge=0, le=INT32_MAX)]) -> Open:
    """Let the cluster empty a broker; call it again to see how far that is, and once more when it is stopped."""
    return await api_of(request).admin.decommission(broker)


@router.get("/health", response_model=Health, responses=NOT_READY)
async def health(request: Request) -> JSONResponse:
    """Whether the process lives, whether it can serve, and if not, why."""
    found = await api_of(request).health()
    return JSONResponse(found, 200 if found["ready"] else 503)


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(request: Request) -> PlainTextResponse:
    """Figures for Prometheus."""
    return PlainTextResponse(await api_of(request).metrics(), media_type=METRICS_TYPE)
