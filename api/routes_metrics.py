"""The numbers that a monitoring system scrapes."""

from __future__ import annotations

from fastapi import APIRouter, Response

from api import examples
from api.deps import ServicesHere
from api.metrics import MEDIA_TYPE, QueueNumbers, exposition

router = APIRouter(tags=["status"])


@router.get(
    "/metrics",
    summary="Numbers for Prometheus",
    response_class=Response,
    responses=examples.metrics() | examples.problems(503),
)
def read_metrics(here: ServicesHere) -> Response:
    """All numbers, summed over workers where that makes sense; counters only grow, whatever becomes of workers."""
    running, workers = here.queue.running(), here.presence.alive()
    queues = [
        QueueNumbers(name, here.queue.depth(name), running[name], here.queue.stats(name), here.meters.read(name))
        for name in here.catalogue.base_models
    ]
    return Response(exposition(queues, here.queue.counts(), workers), media_type=MEDIA_TYPE)
