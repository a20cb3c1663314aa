"""A job's events as server-sent events."""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterable, AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Depends, Header
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from api import examples
from api.deps import JobId, Services, ServicesHere
from api.waiting import SLICE_MS, first_of
from shared.errors import InvalidRequest, QueueUnavailable
from shared.events import FROM_START, Event

log = logging.getLogger(__name__)
router = APIRouter(prefix="/v1/jobs", tags=["jobs"])

RECONNECT_MS = 2000

_ID = re.compile(r"(\d{1,20})(?:-(\d{1,20}))?")
_ID_LIMIT = 2**64


async def _resume(
    job_id: JobId,
    here: ServicesHere,
    last_event_id: Annotated[
        str | None, Header(alias="Last-Event-ID", description="Go on after this event; browsers send it themselves.")
    ] = None,
) -> AsyncIterator[str]:
    """The event to go on after, with a seat held; everything that must be refused is refused here, before the stream.

    A caller that has seen the end gets 204, which tells browsers not to reconnect.
    """
    last_id = _checked(last_event_id) if last_event_id else FROM_START
    job = await run_in_threadpool(here.find, job_id)
    with here.waiters.seat():
        if job.status.terminal:
            newest = await here.events.newest(job_id)
            if newest is None or not _before(last_id, newest):
                raise HTTPException(204)
        yield last_id


@router.get(
    "/{job_id}/events",
    summary="Follow a job",
    response_class=EventSourceResponse,
    responses=examples.events() | examples.problems(404, 410, 422, 503),
)
async def follow_job(
    job_id: JobId, here: ServicesHere, last_id: Annotated[str, Depends(_resume)]
) -> AsyncIterable[ServerSentEvent]:
    """The job's events from its start, or after `Last-Event-ID`, until it has ended.

    Types: `queued`, `running`, `progress` {step, steps}, `cancelling`, and at the end `succeeded`, `failed`,
    `cancelled` or `expired`. Old `progress` events of a long job are dropped. Comments keep the connection alive.
    """
    retry: int | None = RECONNECT_MS
    while True:
        try:
            found = await first_of(here.events.after(job_id, last_id, SLICE_MS), here.waiters.closed())
            if found is None or (not found and await _over(here, job_id)):
                return
        except QueueUnavailable:
            # The caller reconnects and is answered 503 until the server is back.
            log.info("events of job %s end early: the job server does not answer", job_id)
            return
        for event in found:
            # Not as a message of its own: some readers take it for an empty event.
            yield ServerSentEvent(id=event.id, event=event.type, raw_data=event.data, retry=retry)
            if event.terminal:
                return
            last_id, retry = event.id, None


async def _over(here: Services, job_id: str) -> bool:
    """Whether nothing can come any more: the job's events are lost, or its end stands before a wrong Last-Event-ID."""
    newest = await here.events.newest(job_id)
    return newest is None or newest.terminal


def _checked(last_id: str) -> str:
    found = _ID.fullmatch(last_id)
    if found is None or any(int(number) >= _ID_LIMIT for number in found.groups("0")):
        raise InvalidRequest("Last-Event-ID: send the id of an event of this job as it came.", field="Last-Event-ID")
    return last_id


def _before(last_id: str, event: Event) -> bool:
    return _numbers(last_id) < _numbers(event.id)


def _numbers(stream_id: str) -> tuple[int, int]:
    milliseconds, _, count = stream_id.partition("-")
    return int(milliseconds), int(count or 0)
