"""Jobs: submit, read, list, cancel."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Annotated

from fastapi import APIRouter, Body, Depends, Header, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from api import examples
from api.deps import JobId, Services, ServicesHere, known_query
from api.example_values import REQUESTS
from api.submit import submit
from api.views import JobsPage
from api.waiting import LONGEST_WAIT_S, ended, first_of, gone, preferred_wait_s
from shared.errors import InvalidRequest, JobFinished
from shared.job import Job, Status
from shared.queue import Row
from shared.request import JobRequest
from shared.view import JobView

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])

KEY_PATTERN = r"^[\x20-\x7e]+$"
_CURSOR = re.compile(r"(\d{1,16})\.([0-9A-Z]{26})")


@router.post(
    "",
    status_code=202,
    summary="Submit a job",
    responses=examples.job(202, "The job is stored and will end.") | examples.problems(400, 409, 413, 422, 503),
)
def submit_job(
    request: Annotated[JobRequest, Body(openapi_examples=REQUESTS)],
    response: Response,
    here: ServicesHere,
    key: Annotated[
        str | None,
        Header(
            alias="Idempotency-Key",
            min_length=1,
            max_length=255,
            pattern=KEY_PATTERN,
            description="Sent again within 24 hours with the same body, it gives the same job instead of a second one.",
        ),
    ] = None,
) -> JobView:
    """Take a job. It ends in exactly one of succeeded, failed, cancelled or expired."""
    job_id, replayed = submit(here, request, key)
    view = here.view(here.find(job_id))
    response.headers["Location"] = view.urls.self
    if replayed:
        response.headers["Idempotent-Replayed"] = "true"
    return view


@router.get(
    "",
    summary="List jobs",
    responses=examples.jobs_page() | examples.problems(422, 503),
    dependencies=[Depends(known_query)],
)
def list_jobs(
    here: ServicesHere,
    status: Annotated[list[Status] | None, Query(description="Only these states; may be given several times.")] = None,
    limit: Annotated[int, Query(ge=1, le=100, description="Jobs on a page.")] = 20,
    cursor: Annotated[str | None, Query(description="next_cursor of the page before.")] = None,
) -> JobsPage:
    """Jobs, newest first, a page at a time."""
    found, last = here.queue.newest(set(status or Status), limit, before=read_cursor(cursor) if cursor else None)
    return JobsPage(jobs=[here.view(job) for job in found], next_cursor=make_cursor(last) if last else None)


@router.get(
    "/{job_id}",
    summary="Read a job",
    responses=examples.job(200) | examples.problems(404, 410, 422, 503),
    dependencies=[Depends(known_query)],
)
async def read_job(
    job_id: JobId,
    request: Request,
    response: Response,
    here: ServicesHere,
    wait: Annotated[
        float | None,
        Query(
            ge=0, le=LONGEST_WAIT_S, allow_inf_nan=False, description="Answer when the job has ended, or after this."
        ),
    ] = None,
    prefer: Annotated[
        list[str] | None, Header(description="`wait=SECONDS` does what ?wait= does; ?wait= goes first.")
    ] = None,
) -> JobView:
    """The job as it is now, or with `wait` as it is when it has ended or the seconds are over."""
    job = await run_in_threadpool(here.find, job_id)
    preferred_s = preferred_wait_s(prefer or ()) if wait is None else None
    if preferred_s is not None:
        response.headers["Preference-Applied"] = f"wait={preferred_s}"
    wait_s = preferred_s if wait is None else wait
    if wait_s and not job.status.terminal:
        job = await _when_ended(here, request, job_id, wait_s)
    response.headers["Cache-Control"] = "no-store"
    return await run_in_threadpool(here.view, job)


@router.post(
    "/{job_id}/cancel",
    summary="Cancel a job",
    responses=examples.job(200, "The job is cancelled.")
    | examples.job(202, "The job runs; it stops at its next denoising step.")
    | examples.problems(404, 409, 410, 503),
)
def cancel_job(job_id: JobId, response: Response, here: ServicesHere) -> JobView:
    """Cancel a job: a waiting one at once, a running one within one denoising step, without an image."""
    here.find(job_id)
    had = here.queue.cancel(job_id)
    if had.terminal and had is not Status.CANCELLED:
        raise JobFinished(f"The job has already {had.value}." if had is not Status.EXPIRED else "The job has expired.")
    job = here.find(job_id)
    if had is Status.QUEUED and job.spec.webhook:
        here.tickets.ring_notifier()
    response.status_code = 202 if had is Status.RUNNING else 200
    return here.view(job)


def make_cursor(row: Row) -> str:
    """Where the page that ends with this row ends."""
    created_ms, job_id = row
    return base64.urlsafe_b64encode(f"{created_ms}.{job_id}".encode()).decode()


def read_cursor(cursor: str) -> Row:
    """The row that ``make_cursor`` wrote; ``InvalidRequest`` when it is not one of ours."""
    try:
        found = _CURSOR.fullmatch(base64.b64decode(cursor, altchars=b"-_", validate=True).decode())
    except (binascii.Error, ValueError):
        found = None
    if found is None:
        raise InvalidRequest("cursor: send a next_cursor as it came.", field="cursor")
    return int(found[1]), found[2]


async def _when_ended(here: Services, request: Request, job_id: str, wait_s: float) -> Job:
    with here.waiters.seat():
        await first_of(ended(here.events, job_id, wait_s), gone(request), here.waiters.closed())
    return await run_in_threadpool(here.find, job_id)
