"""What a webhook says: the job as ``GET /v1/jobs/{id}`` shows it, in the envelope of Standard Webhooks."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from shared.job import Job
from shared.request import TerminalEvent
from shared.view import JobView, Moment, job_view, moment


class Event(BaseModel):
    """The body of a webhook."""

    model_config = ConfigDict(frozen=True)

    type: TerminalEvent
    timestamp: Moment = Field(description="When the job ended.")
    data: JobView


def render(job: Job, event_type: str, public_url: str) -> str:
    """The event's JSON, ASCII only so that no hop can spoil it. The job has ended; ``ValueError`` if not."""
    if job.finished_ms is None:
        raise ValueError(f"job {job.id} has not ended")
    event = Event.model_validate(
        {"type": event_type, "timestamp": moment(job.finished_ms), "data": job_view(job, public_url)}
    )
    return event.model_dump_json(ensure_ascii=True)
