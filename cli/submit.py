"""``hotslot submit`` and ``hotslot watch``: one job, and what comes of it."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from cli.adapter_words import TypedAdapter
from cli.client import Client
from cli.follow import follow
from cli.image_files import check_writable, download, format_for
from cli.progress import JobBar
from shared.job import Status
from shared.request import ImageFormat, Priority
from shared.view import JobView


@dataclass(frozen=True)
class Wish:
    """A job as it was typed; None: the base model's default."""

    prompt: str
    adapters: Sequence[TypedAdapter] = ()
    base_model: str | None = None
    width: int | None = None
    height: int | None = None
    steps: int | None = None
    guidance_scale: float | None = None
    seed: int | None = None
    num_images: int = 1
    format: ImageFormat | None = None
    priority: Priority = "normal"


@dataclass(frozen=True)
class Delivery:
    """What to do after submitting. ``out``: file or folder as typed."""

    wait: bool = False
    out: str | None = None
    as_json: bool = False

    @property
    def path(self) -> Path | None:
        """Where images go."""
        return Path(self.out).expanduser() if self.out else None


def body_of(wish: Wish, image_format: ImageFormat) -> dict[str, Any]:
    """The request; what was not typed is left to the service."""
    optional = {
        "base_model": wish.base_model,
        "width": wish.width,
        "height": wish.height,
        "steps": wish.steps,
        "guidance_scale": wish.guidance_scale,
        "seed": wish.seed,
    }
    return {
        "prompt": wish.prompt,
        "adapters": [{"source": adapter.source, "scale": adapter.scale} for adapter in wish.adapters],
        "num_images": wish.num_images,
        "format": image_format,
        "priority": wish.priority,
        **{name: value for name, value in optional.items() if value is not None},
    }


def submit(client: Client, wish: Wish, delivery: Delivery, notes: Console) -> int:
    """Submit, and wait and download if asked to; returns the exit status. Raises HotslotError."""
    image_format = checked_format(delivery, wish.format)
    job = client.submit(body_of(wish, image_format), uuid.uuid4().hex)
    for warning in job.warnings:
        notes.print(f"warning: {warning}", highlight=False)
    waits = delivery.wait or delivery.path is not None
    if not delivery.as_json:
        _say(job.id)
    elif not waits:
        _say(job.model_dump_json(indent=2))
    if not waits:
        return 0
    return finish(client, job.id, delivery, notes)


def watch(client: Client, job_id: str, delivery: Delivery, notes: Console) -> int:
    """Follow a job that was submitted before; as ``finish``."""
    if delivery.path is not None:
        checked_format(delivery, client.job(job_id).format)
    return finish(client, job_id, delivery, notes)


def checked_format(delivery: Delivery, asked: ImageFormat | None) -> ImageFormat:
    """The images' format, once it is clear that they can be written. Raises InvalidRequest or Misconfigured."""
    typed = delivery.out or ""
    if delivery.path is not None:
        check_writable(delivery.path, typed)
    return format_for(delivery.path, typed, asked)


def finish(client: Client, job_id: str, delivery: Delivery, notes: Console) -> int:
    """Follow a job to its end, then download; returns the exit status. Raises HotslotError."""
    try:
        with JobBar(notes, job_id) as bar:
            job = follow(client, job_id, bar.show)
    except KeyboardInterrupt:
        notes.print(f"The job goes on; follow it with: hotslot watch {job_id}", highlight=False)
        raise
    if delivery.as_json:
        _say(job.model_dump_json(indent=2))
    if job.status is not Status.SUCCEEDED:
        notes.print(ending(job), style="red", highlight=False, markup=False)
        return 1
    if delivery.path is not None:
        for path in download(client, job, delivery.path, delivery.out or ""):
            notes.print(f"wrote {path}", highlight=False, markup=False)
    else:
        notes.print(ending(job), highlight=False, markup=False)
        if not delivery.as_json:
            for image in job.images:
                _say(image.url)
    return 0


def ending(job: JobView) -> str:
    """How the job ended, in one line."""
    if job.error is not None:
        return f"{job.id} {job.status}: {job.error.message} ({job.error.code})"
    if job.status is not Status.SUCCEEDED:
        return f"{job.id} was {job.status}." if job.status is Status.CANCELLED else f"{job.id} {job.status}."
    adapters = " + ".join(f"{adapter.source}:{adapter.scale:g}" for adapter in job.adapters) or "no adapter"
    return f"{job.id} succeeded with {adapters} in {sum(job.timings_ms.values()) / 1000:.1f} s"


def _say(line: str) -> None:
    # Plain, because programs read it.
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
