"""What a caller may ask for: the body of ``POST /v1/jobs``.

The types are checked here; ranges that depend on the base model are checked at admission, which can name them.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

LARGEST_SEED = 2**63 - 1
LARGEST_SCALE = 10.0

ImageFormat = Literal["png", "jpeg", "webp"]
Priority = Literal["low", "normal", "high"]
TerminalEvent = Literal["job.succeeded", "job.failed", "job.cancelled", "job.expired"]
TERMINAL_EVENTS: tuple[TerminalEvent, ...] = ("job.succeeded", "job.failed", "job.cancelled", "job.expired")

Text = Annotated[str, StringConstraints(max_length=4000)]


class _Body(BaseModel):
    # Strict, because "4" for a number is a caller's bug that silent conversion would hide.
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)


class AdapterRequest(_Body):
    """One adapter and its strength (1.0 is as trained)."""

    source: Annotated[str, StringConstraints(min_length=1, max_length=4096)] = Field(
        description="A registered name, hf:OWNER/REPO[@REVISION][#FILE], s3://BUCKET/KEY, https://… or file:PATH below "
        "the adapter folder."
    )
    scale: float = Field(default=1.0, ge=-LARGEST_SCALE, le=LARGEST_SCALE)


class WebhookRequest(_Body):
    """Where to report the job's end, and which ends."""

    url: Annotated[str, StringConstraints(min_length=1, max_length=2048)]
    events: list[TerminalEvent] = Field(default=list(TERMINAL_EVENTS), min_length=1)


class JobRequest(_Body):
    """One job: a prompt, the adapters to draw it with, and how."""

    prompt: Annotated[str, StringConstraints(min_length=1, max_length=4000)]
    negative_prompt: Text | None = None
    base_model: Annotated[str, StringConstraints(max_length=64)] | None = Field(
        default=None, description="May be left out where an adapter names it."
    )
    adapters: list[AdapterRequest] = Field(default=[], max_length=4)
    width: int | None = Field(default=None, description="Pixels.")
    height: int | None = Field(default=None, description="Pixels.")
    steps: int | None = Field(default=None, description="Denoising steps.")
    guidance_scale: float | None = None
    seed: int | None = Field(default=None, ge=0, le=LARGEST_SEED, description="Drawn at random if left out.")
    num_images: int = Field(default=1, ge=1, le=4, description="Image i is drawn with seed + i.")
    format: ImageFormat = "png"
    priority: Priority = "normal"
    deadline_seconds: float | None = Field(default=None, gt=0, le=30 * 24 * 3600)
    webhook: WebhookRequest | None = None
    metadata: dict[
        Annotated[str, StringConstraints(max_length=64)], Annotated[str, StringConstraints(max_length=512)]
    ] = Field(default={}, max_length=16)
