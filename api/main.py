"""The app: its parts, its routes, its life."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio.to_thread
from fastapi import FastAPI
from fastapi_offline import FastAPIOffline
from starlette.concurrency import run_in_threadpool

from api import (
    openapi,
    problems,
    routes_adapters,
    routes_control,
    routes_events,
    routes_files,
    routes_jobs,
    routes_metrics,
    routes_receipts,
    routes_status,
)
from api.deps import Services, build
from api.middleware import AccessLog, BodyLimit
from shared.settings import Settings
from shared.version import VERSION

THREADS = 64
"""Requests at the job server at once; fewer than its client's connections."""


def create_app(settings: Settings) -> FastAPI:
    """The API for these settings. Raises SetupError; the job server need not be there yet."""
    services = build(settings)
    # The viewer at /docs from files of our own, because a closed network reaches no CDN.
    app = FastAPIOffline(
        title="Hotslot",
        version=VERSION,
        summary="Many LoRA adapters on few resident diffusion base models.",
        description=openapi.DESCRIPTION,
        openapi_tags=openapi.TAGS,
        redoc_url=None,
        lifespan=lambda _: _lifespan(services),
        # Its logs would hold refused requests, prompts included.
        telemetry={"logs": False},
    )
    app.state.services = services
    app.add_middleware(BodyLimit)
    app.add_middleware(AccessLog)
    problems.install(app)
    openapi.install(app)
    app.include_router(routes_jobs.router)
    app.include_router(routes_events.router)
    app.include_router(routes_files.images)
    if settings.store == "folder":
        app.include_router(routes_files.files)
    app.include_router(routes_adapters.router)
    app.include_router(routes_receipts.router)
    app.include_router(routes_status.router)
    app.include_router(routes_metrics.router)
    app.include_router(routes_control.router)
    return app


@asynccontextmanager
async def _lifespan(services: Services) -> AsyncIterator[None]:
    anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
    services.reclaimer.start()
    try:
        yield
    finally:
        services.waiters.close()
        await services.readiness.stop()
        await run_in_threadpool(services.reclaimer.stop)
        await services.events.close()
        services.disconnect()
