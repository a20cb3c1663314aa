"""A job as callers see it: the one public form, sent by the API and inside webhooks alike.

Links are stable addresses below the public URL; a link that expires never appears here.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field

from shared.job import ImageRecord, Job, JobError, PinnedAdapter, Receipt, Status
from shared.request import ImageFormat, Priority, TerminalEvent, WebhookRequest

Moment = Annotated[str, Field(json_schema_extra={"format": "date-time"}, examples=["2026-03-01T12:00:00.250Z"])]
"""RFC 3339, UTC, with milliseconds."""

Link = Annotated[str, Field(json_schema_extra={"format": "uri"})]


class _View(BaseModel):
    # Fields may be added later, so a reader of this form must not refuse unknown ones.
    model_config = ConfigDict(frozen=True)


class AdapterView(_View):
    """An adapter as admitted: the bytes that this job uses, whatever its source says later."""

    source: str = Field(description="As it was asked for.", examples=["sketch"])
    scale: float = Field(description="Strength; 1.0 is as trained.")
    sha256: str | None = Field(
        description="SHA-256 of the adapter file, hexadecimal; null where its source did not tell it at admission. "
        "The receipt has it always."
    )
    revision: str | None = Field(description="The source's own revision at admission, where it has one.")


class ProgressView(_View):
    """Denoising steps over all images of the job."""

    step: int = Field(description="Steps done by the current attempt.")
    steps: int = Field(description="Steps in all.")


class ImageView(_View):
    """One finished image."""

    url: Link = Field(description="Stable address; redirects to a fresh download link.")
    sha256: str = Field(description="SHA-256 of the file, hexadecimal.")
    width: int = Field(description="Pixels.")
    height: int = Field(description="Pixels.")
    content_type: str = Field(examples=["image/png"])
    seed: int = Field(description="Seed that this image was drawn with.")


class ErrorView(_View):
    """Why the job failed."""

    code: str = Field(description="Stable and machine-readable.", examples=["adapter_mismatch"])
    message: str = Field(description="One sentence that says what to do.")
    retryable: bool = Field(description="Whether the same request can succeed later.")


class WebhookView(_View):
    """Where the job's end is reported. A whole URL may hold what only its owner should know."""

    origin: str = Field(description="Scheme, host and port.", examples=["https://example.com"])
    events: list[TerminalEvent]


class UrlsView(_View):
    """Where to go from here."""

    self: Link = Field(description="This job.")
    cancel: Link = Field(description="POST here to cancel it.")
    events: Link = Field(description="Its events as a stream.")


class JobView(_View):
    """A job: what was asked for, how far it is, and what came of it."""

    id: str = Field(examples=["01KJ9QZ7W5V0T3N8M2C4X6B1AD"])
    status: Status
    position: int | None = Field(description="Jobs of the same base model that rank before this one; queued only.")
    base_model: str = Field(examples=["tiny-flux"])
    adapters: list[AdapterView]
    prompt: str
    negative_prompt: str | None
    width: int = Field(description="Pixels.")
    height: int = Field(description="Pixels.")
    steps: int = Field(description="Denoising steps of one image.")
    guidance_scale: float
    seed: int = Field(description="Seed of the first image; image i has seed + i.")
    num_images: int
    format: ImageFormat
    priority: Priority
    deadline_seconds: float | None = Field(description="The job expires if it has not ended this long after it came.")
    webhook: WebhookView | None
    metadata: dict[str, str] = Field(description="The caller's own words, returned as they came.")
    progress: ProgressView
    attempt: int = Field(description="How often a worker has claimed the job.")
    worker: str | None = Field(description="The worker that has it, or had it last.")
    images: list[ImageView] = Field(description="Empty until the job has succeeded.")
    receipt: Receipt | None = Field(description="Proof of which adapters and base model made the images.")
    timings_ms: dict[str, float] = Field(description="Milliseconds spent in each step of the way; empty until success.")
    warnings: list[str] = Field(description="What was not done quite as asked, one sentence each.")
    error: ErrorView | None = Field(description="Set when the job has failed.")
    urls: UrlsView
    created_at: Moment
    started_at: Moment | None = Field(description="First claim by a worker.")
    finished_at: Moment | None


def job_view(job: Job, public_url: str, position: int | None = None) -> JobView:
    """The public form of a record. ``position`` is shown only while the job is queued."""
    spec = job.spec
    address = f"{public_url.rstrip('/')}/v1/jobs/{job.id}"
    images = job.result.images if job.result else []
    return JobView(
        id=job.id,
        status=job.status,
        position=position if job.status is Status.QUEUED else None,
        base_model=spec.base_model,
        adapters=[_adapter(adapter) for adapter in spec.adapters],
        prompt=spec.prompt,
        negative_prompt=spec.negative_prompt,
        width=spec.width,
        height=spec.height,
        steps=spec.steps,
        guidance_scale=spec.guidance_scale,
        seed=spec.seed,
        num_images=spec.num_images,
        format=spec.format,
        priority=spec.priority,
        deadline_seconds=spec.deadline_seconds,
        webhook=_webhook(spec.webhook) if spec.webhook else None,
        metadata=spec.metadata,
        progress=ProgressView(step=job.step, steps=job.steps),
        attempt=job.attempt,
        worker=job.worker,
        images=[_image(image, f"{address}/images/{number}") for number, image in enumerate(images)],
        receipt=job.result.receipt if job.result else None,
        timings_ms=job.result.timings_ms if job.result else {},
        warnings=job.warnings,
        error=_error(job.error) if job.error else None,
        urls=UrlsView(self=address, cancel=f"{address}/cancel", events=f"{address}/events"),
        created_at=moment(job.created_ms),
        started_at=None if job.started_ms is None else moment(job.started_ms),
        finished_at=None if job.finished_ms is None else moment(job.finished_ms),
    )


def moment(unix_ms: int) -> str:
    """Unix milliseconds as RFC 3339 in UTC, with milliseconds."""
    whole_s, rest_ms = divmod(unix_ms, 1000)
    return f"{datetime.fromtimestamp(whole_s, UTC):%Y-%m-%dT%H:%M:%S}.{rest_ms:03d}Z"


def _adapter(pinned: PinnedAdapter) -> AdapterView:
    return AdapterView(source=pinned.source, scale=pinned.scale, sha256=pinned.sha256, revision=pinned.revision)


def _webhook(webhook: WebhookRequest) -> WebhookView:
    parts = urlsplit(webhook.url)
    return WebhookView(origin=f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}", events=webhook.events)


def _image(image: ImageRecord, url: str) -> ImageView:
    return ImageView(
        url=url,
        sha256=image.sha256,
        width=image.width,
        height=image.height,
        content_type=image.content_type,
        seed=image.seed,
    )


def _error(error: JobError) -> ErrorView:
    return ErrorView(code=error.code, message=error.message, retryable=error.retryable)
