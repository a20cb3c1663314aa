"""Holding jobs back: pause a queue, drain a worker, and let them go on."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from api import examples
from api.deps import ServicesHere
from api.views import PausedView

router = APIRouter(tags=["status"])

BaseModelName = Annotated[str, Path(description="Name of a served base model.", examples=["tiny-flux"])]
WorkerName = Annotated[str, Path(description="Name of a living worker.", examples=["tiny-flux-4711@gpu-1"])]


@router.post(
    "/v1/queues/{base_model}/pause",
    summary="Pause a queue",
    responses=examples.paused(is_paused=True) | examples.problems(422, 503),
)
def pause_queue(base_model: BaseModelName, here: ServicesHere) -> PausedView:
    """Hand out none of its jobs until it is resumed. What runs goes on, and jobs are taken as before."""
    here.queue.pause(here.catalogue.get(base_model).name)
    return PausedView(paused=True)


@router.post(
    "/v1/queues/{base_model}/resume",
    summary="Resume a queue",
    responses=examples.paused(is_paused=False) | examples.problems(422, 503),
)
def resume_queue(base_model: BaseModelName, here: ServicesHere) -> PausedView:
    """End the pause of a queue, if there is one."""
    here.queue.resume(here.catalogue.get(base_model).name)
    here.tickets.ring(base_model)
    return PausedView(paused=False)


@router.post(
    "/v1/workers/{name}/drain",
    summary="Drain a worker",
    responses=examples.paused(is_paused=True) | examples.problems(404, 503),
)
def drain_worker(name: WorkerName, here: ServicesHere) -> PausedView:
    """Let a worker end its job and give it no other until it is resumed; others go on."""
    here.queue.drain(here.worker(name).name)
    return PausedView(paused=True)


@router.post(
    "/v1/workers/{name}/resume",
    summary="Resume a worker",
    responses=examples.paused(is_paused=False) | examples.problems(404, 503),
)
def resume_worker(name: WorkerName, here: ServicesHere) -> PausedView:
    """Give a drained worker jobs again."""
    base_model = here.worker(name).base_model
    here.queue.undrain(name)
    here.tickets.ring(base_model)
    return PausedView(paused=False)
