"""What the routes work with: one set of parts per app, and how a route asks for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Path, Request

from api.inspection import Inspector
from api.limits import shown
from api.readiness import Readiness
from api.waiting import MOST_WAITERS, Waiters
from shared.adapters.served import served_bases
from shared.catalogue import Catalogue, read_catalogue
from shared.errors import InvalidRequest, JobGone, JobNotFound, WorkerNotFound
from shared.events import Events
from shared.ids import created_ms_of
from shared.job import Job, Status
from shared.meters import Meters
from shared.outbox import Outbox
from shared.presence import Presence, WorkerInfo
from shared.queue import Queue
from shared.receipt_keys import ReceiptKeys
from shared.reclaim import Reclaimer
from shared.registry import Registry
from shared.server import check_server, connect_api, connect_async
from shared.settings import Settings
from shared.sources.pins import Pins
from shared.sources.sources import Sources
from shared.storage import Store, open_store
from shared.tickets import Tickets
from shared.view import JobView, job_view

SPARE_CONNECTIONS = 16
"""Beside one per waiter: for their first look, before they wait."""


@dataclass(frozen=True)
class Services:
    """Everything behind the routes."""

    settings: Settings
    catalogue: Catalogue
    queue: Queue
    registry: Registry
    meters: Meters
    presence: Presence
    receipt_keys: ReceiptKeys
    tickets: Tickets
    store: Store
    inspector: Inspector
    sources: Sources
    pins: Pins
    events: Events
    waiters: Waiters
    readiness: Readiness
    reclaimer: Reclaimer
    check_redis: Callable[[], None]
    """Raises when the job server is not reached, or is set up so that it may lose jobs."""
    disconnect: Callable[[], None]

    def worker(self, name: str) -> WorkerInfo:
        """The living worker of this name, or ``WorkerNotFound``."""
        for worker in self.presence.alive():
            if worker.name == name:
                return worker
        raise WorkerNotFound(f"No worker {shown(name)} is alive; GET /v1/workers lists those that are.")

    def find(self, job_id: str) -> Job:
        """The job; ``JobGone`` when its id is older than the retention, ``JobNotFound`` when it was never seen."""
        created_ms = created_ms_of(job_id)
        if created_ms is None:
            raise JobNotFound("This is not the id of a job.")
        try:
            return self.queue.get(job_id)
        except JobNotFound:
            if created_ms + self.settings.retention_s * 1000 > time.time() * 1000:
                raise
            raise JobGone(f"Job {job_id} is past its retention of {self.settings.retention_s} seconds.") from None

    def view(self, job: Job) -> JobView:
        """The job as callers see it."""
        position = self.queue.position(job) if job.status is Status.QUEUED else None
        return job_view(job, self.settings.public_url, position)


def build(settings: Settings) -> Services:
    """All parts for these settings; connects to nothing yet. Raises SetupError."""
    client = connect_api(settings)

    def check_redis() -> None:
        check_server(client, settings)

    queue, tickets, store = Queue(client, settings), Tickets(settings), open_store(settings)
    catalogue, sources = read_catalogue(settings.catalogue), Sources(settings)
    return Services(
        settings=settings,
        catalogue=catalogue,
        queue=queue,
        registry=Registry(client),
        meters=Meters(client),
        presence=Presence(client),
        receipt_keys=ReceiptKeys(client),
        tickets=tickets,
        store=store,
        inspector=Inspector(catalogue, served_bases(catalogue), sources.open_source),
        sources=sources,
        pins=Pins(),
        events=Events(connect_async(settings, MOST_WAITERS + SPARE_CONNECTIONS)),
        waiters=Waiters(),
        readiness=Readiness({"redis": check_redis, "store": store.check}),
        reclaimer=Reclaimer(queue, Outbox(client, settings), tickets, store),
        check_redis=check_redis,
        disconnect=client.close,
    )


async def services(request: Request) -> Services:
    """The app's parts; asynchronous so that no thread is spent on it."""
    found: Services = request.app.state.services
    return found


async def known_query(request: Request) -> None:
    """Refuse a misspelt query parameter, which would otherwise have no effect."""
    known = [parameter.alias for parameter in request.scope["route"].dependant.query_params]
    for name in request.query_params:
        if name not in known:
            raise InvalidRequest(f"{shown(name)} is not known here; allowed are: {', '.join(known)}.", field=name)


ServicesHere = Annotated[Services, Depends(services)]
JobId = Annotated[str, Path(description="The job's id.", examples=["01KJ9QZ7W5V0T3N8M2C4X6B1AD"])]
