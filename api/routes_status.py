"""How the service is: base models, queues, workers, health."""

from __future__ import annotations

from fastapi import APIRouter, Response

from api import examples
from api.deps import Services, ServicesHere
from api.problems import RETRY_AFTER_S, answer, make_problem
from api.views import (
    AliveView,
    BaseModelsView,
    GroupView,
    QueuesView,
    QueueView,
    ReadyView,
    WorkersView,
    base_model_view,
    group_view,
    queue_view,
    worker_view,
)
from shared.presence import WorkerInfo

router = APIRouter(tags=["status"])


@router.get("/v1/base-models", summary="List base models", responses=examples.base_models() | examples.problems(503))
def list_base_models(here: ServicesHere) -> BaseModelsView:
    """What is served, with limits, defaults, registered adapters and living workers."""
    registered, workers = here.registry.all().values(), here.presence.alive()
    entries = here.catalogue.base_models.values()
    return BaseModelsView(base_models=[base_model_view(entry, registered, workers) for entry in entries])


@router.get("/v1/queues", summary="Look at the queues", responses=examples.queues() | examples.problems(503))
def list_queues(here: ServicesHere) -> QueuesView:
    """Per base model: what waits, by adapters, for how long, and who serves it."""
    workers, now_ms, running = here.presence.alive(), here.queue.server_time_ms(), here.queue.running()
    served = here.catalogue.base_models
    # Jobs can wait for a base model that was taken out of the catalogue since they came.
    names = [*served, *(name for name in here.queue.waited_for() if name not in served)]
    return QueuesView(queues=[_queue(here, name, workers, now_ms, running[name]) for name in names])


@router.get("/v1/workers", summary="List workers", responses=examples.workers() | examples.problems(503))
def list_workers(here: ServicesHere) -> WorkersView:
    """Living workers, what each does and holds."""
    workers = here.presence.alive()
    drained = _drained(here, workers)
    return WorkersView(workers=[worker_view(worker, worker.name in drained) for worker in workers])


@router.get("/healthz", summary="Is the process up", responses=examples.alive())
async def healthz() -> AliveView:
    """Answers whenever this process can answer; looks at nothing else."""
    return AliveView(status="ok")


@router.get(
    "/readyz",
    summary="Can jobs be taken",
    response_model=ReadyView,
    responses=examples.ready() | examples.problems(503),
)
async def readyz(here: ServicesHere) -> ReadyView | Response:
    """Whether the job server and the image store are reached and rightly set up; 503 names what is not."""
    parts = await here.readiness.parts()
    if all(part.ok for part in parts.values()):
        return ReadyView(ready=True, parts=parts)
    missing = ", ".join(name for name, part in parts.items() if not part.ok)
    problem = make_problem(503, "not_ready", f"Jobs cannot be taken, because of: {missing}.", retryable=True)
    shown = {name: part.model_dump() for name, part in parts.items()}
    return answer(problem, {"Retry-After": str(RETRY_AFTER_S)}, ready=False, parts=shown)


def _drained(here: Services, workers: list[WorkerInfo]) -> set[str]:
    return {worker.name for worker in workers if here.queue.is_drained(worker.name)}


def _queue(here: Services, base_model: str, workers: list[WorkerInfo], now_ms: int, running: int) -> QueueView:
    queue = here.queue
    return queue_view(
        base_model,
        queue.depth(base_model),
        _groups(here, base_model, now_ms),
        running,
        workers,
        queue.stats(base_model),
        is_served=base_model in here.catalogue.base_models,
        is_paused=queue.is_paused(base_model),
        drained=_drained(here, [worker for worker in workers if worker.base_model == base_model]),
        oldest_version=queue.oldest_version(base_model),
    )


def _groups(here: Services, base_model: str, now_ms: int) -> list[GroupView]:
    found = here.queue.look(base_model)
    heads = ((group, here.queue.head(base_model, group.key)) for group in found)
    # A group may have been claimed empty since it was listed.
    return [group_view(group, head, now_ms) for group, head in heads if head]
